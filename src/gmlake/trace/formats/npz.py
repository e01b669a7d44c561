"""The four-column .npz: numpy arrays kind, id, size and stream of equal length, one row per event.

Kinds are those of `Kind`; ids need not be dense. The archive is read without numpy's loader because a member
may claim any shape: here its claim is compared with the bytes that are there before anything is reserved for
it.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import numpy.typing as npt

from gmlake.trace.building import Rows, build, check_events, whole_numbers
from gmlake.trace.errors import TraceError
from gmlake.trace.trace import Kind, Trace

_COLUMNS = ("kind", "id", "size", "stream")
# What zipfile raises for damaged archives, in one version of Python or another.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    RuntimeError,
)


def sniff(data: bytes) -> bool:
    """Is it a zip archive?"""
    return data.startswith(b"PK\x03\x04")


def read(data: bytes, name: str, device: int | None) -> Trace:
    """The trace of an .npz file."""
    if device:
        raise TraceError(f"an .npz trace holds one device only, not device {device}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            columns = {column: _column(archive, column) for column in _COLUMNS}
    except _DAMAGE as error:
        raise TraceError("is not an intact .npz archive") from error
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise TraceError(f"has columns of lengths {sorted(lengths)}, expected one length")
    kind, key = (whole_numbers(columns[column], f"column {column}") for column in ("kind", "id"))
    size, stream = (whole_numbers(columns[column], f"column {column}") for column in ("size", "stream"))
    for column, values, top in (
        ("kind", kind, int(max(Kind))),
        ("id", key, 2**32 - 1),
        ("stream", stream, 2**63 - 1),
    ):
        wrong = np.flatnonzero((values < 0) | (values > top))
        if len(wrong):
            raise TraceError(f"event {wrong[0]} has {column} {values[wrong[0]]}, expected 0 to {top}")
    of_pool = (kind >= Kind.BEGIN_POOL) & (kind <= Kind.RELEASE_POOL)
    pools, numbers = np.unique(key[of_pool], return_inverse=True)
    keys = key.astype(np.uint64)
    keys[of_pool] = numbers
    return build(
        Rows(kind.astype(np.uint8), keys, size, stream),
        name=name,
        source="npz",
        pools=tuple((int(pool) + 1, 0) for pool in pools),
    )


def _column(archive: zipfile.ZipFile, column: str) -> npt.NDArray[np.generic]:
    try:
        member = archive.getinfo(f"{column}.npy")
    except KeyError:
        raise TraceError(f"lacks the column {column}, expected {', '.join(_COLUMNS)}") from None
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise TraceError(f"packs column {column} in a way that numpy does not")
    with archive.open(member) as content:
        try:
            version = np.lib.format.read_magic(content)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(content)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            raise TraceError(f"has a column {column} that is not a numpy array") from error
        meant = shape[0] * dtype.itemsize if len(shape) == 1 else -1
        if dtype.hasobject or dtype.kind not in "iub" or content.tell() + meant != member.file_size:
            raise TraceError(f"column {column} is {dtype}{list(shape)}, expected whole numbers, one per event")
        check_events(shape[0])  # before they are unpacked
        return np.frombuffer(content.read(), dtype=dtype)


def write(trace: Trace) -> bytes:
    """The four columns; streams by their handles where these fit one byte."""
    handles = np.array(trace.streams, dtype=np.int64)
    if len(handles) and handles.min() >= 0 and handles.max() < 256:
        stream = handles.astype(np.uint8)[trace.stream]
    else:
        stream = trace.stream.astype(np.uint8 if len(handles) <= 256 else np.uint32)
    out = io.BytesIO()
    np.savez_compressed(out, kind=trace.kind, id=trace.id, size=trace.size, stream=stream)
    return out.getvalue()
