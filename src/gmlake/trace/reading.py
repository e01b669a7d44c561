"""Read a trace from a file or by a bundled name, and write one. The only place that touches the disk.

A file is recognised by its content, read whole, and never believed: its size is bounded, gzip is unpacked
with a limit, and whatever is wrong with it comes out as a TraceError of one sentence that begins with the
path.
"""

from __future__ import annotations

import gzip
import io
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gmlake.errors import UserError
from gmlake.output import write_whole
from gmlake.trace.bundled import bundled_names, bundled_path
from gmlake.trace.errors import TraceError
from gmlake.trace.formats import FORMATS, READABLE, WRITABLE, Format, snapshot
from gmlake.trace.iterations import mark_iterations
from gmlake.trace.naming import distinct_names, stem
from gmlake.trace.trace import Kind, Trace

_MAX_FILE = 2 << 30
_GZIP = b"\x1f\x8b"
# Real snapshots shrink 10 to 60 times; a bomb of zeros shrinks 1000 times.
_UNPACKED_ALWAYS = 64 << 20
_UNPACKED_TIMES = 100
_AT_ONCE = 1 << 20


def read_trace(source: str | Path, *, device: int | None = None, find_marks: bool = True) -> Trace:
    """The trace of a file, or the bundled trace of that name.

    `device` chooses one device of a snapshot, by default the one with most events. Where no iteration marks
    are recorded they are looked for in the trace itself, unless `find_marks` is false.
    """
    path = _resolve(source)
    with about(path):
        data = _load(path)
        form = next((row for row in READABLE if row.sniff is not None and row.sniff(data)), None)
        if form is None or form.read is None:
            *most, last = (row.meaning for row in READABLE)
            raise TraceError(f"is no trace: expected {', '.join(most)} or {last}")
        trace = form.read(data, stem(path), device)
        if len(trace) == 0:
            raise TraceError("has no events")
    return mark_iterations(trace) if find_marks else trace


def read_traces(sources: Sequence[str | Path], *, device: int | None = None) -> list[Trace]:
    """The traces of several files, under names that tell them apart."""
    return [
        replace(read_trace(source, device=device), name=name)
        for source, name in zip(sources, names_of(sources), strict=True)
    ]


def names_of(sources: Sequence[str | Path]) -> list[str]:
    """What the traces of these sources are called beside each other."""
    return distinct_names([_resolve(source) for source in sources])


def read_snapshot(source: str | Path, *, device: int | None = None) -> tuple[dict[str, Any], int]:
    """A memory snapshot as PyTorch wrote it, and the device asked for, or the one with most events."""
    path = Path(source)  # no bundled trace is one
    with about(path):
        data = _load(path, "no such file")
        if not snapshot.sniff(data):
            raise TraceError("is not a memory snapshot")
        decoded = snapshot.decode(data)
        return decoded, snapshot.choose_device(decoded, device)


def write_trace(trace: Trace, path: str | Path, to: str | None = None, *, force: bool = False) -> list[str]:
    """Write a trace in the format `to`, else by the suffix; returns what the format could not hold."""
    path = Path(path)
    form = format_to_write(path, to)
    if form.write is None:
        raise TraceError(f"{path}: the format {form.name} is read, not written")
    data = form.write(trace)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        write_whole(path, data, force=force)
    except UserError as error:
        raise TraceError(str(error)) from error.__cause__
    return _losses(trace, form)


def format_names() -> list[str]:
    """The names of the formats that can be written."""
    return [row.name for row in WRITABLE]


@contextmanager
def about(path: str | Path) -> Iterator[None]:
    """Errors inside are about this file."""
    try:
        yield
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error.__cause__
    except MemoryError as error:
        raise TraceError(f"{path}: needs more memory than there is") from error


def _losses(trace: Trace, form: Format) -> list[str]:
    counts = {kind: int((trace.kind == kind).sum()) for kind in Kind if kind not in form.holds}
    lost = [f"{count} {kind.name.lower()} events" for kind, count in counts.items() if count]
    if not form.annotated:
        lost += ["call sites"] * (trace.call_sites is not None) + ["times"] * (trace.time_us is not None)
    return lost


def format_to_write(path: Path, to: str | None) -> Format:
    """The format of that name, else the one the suffix stands for."""
    if to is not None:
        form = next((row for row in FORMATS if row.name == to), None)
        if form is None:
            raise TraceError(f"unknown format {to!r}, expected one of {', '.join(format_names())}")
        return form
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    suffix = {".pkl": ".pickle"}.get(suffixes[-1], suffixes[-1]) if suffixes else ""
    form = next((row for row in WRITABLE if row.suffix == suffix), None)
    if form is None:
        raise TraceError(f"{path}: no format has the suffix {suffix!r}, name one of {', '.join(format_names())}")
    return form


def _resolve(source: str | Path) -> Path:
    if source == "":
        raise TraceError("a trace has no name: expected a file or the name of a bundled trace")
    path = Path(source)
    if isinstance(source, str) and source in bundled_names() and not path.is_file():
        return bundled_path(source)
    return path


def _load(path: Path, missing: str | None = None) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise TraceError("is not a file")
        if status.st_size > _MAX_FILE:
            raise TraceError(f"has {status.st_size} bytes, more than the {_MAX_FILE} that are supported")
        data = path.read_bytes()
    except FileNotFoundError:
        nor = f"no such file, nor is it a bundled trace ({', '.join(bundled_names())})"
        raise TraceError(missing or nor) from None
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}") from error
    if not data:
        raise TraceError("is empty")
    return _unzip(data) if data.startswith(_GZIP) else data


def _unzip(data: bytes) -> bytes:
    limit = min(_UNPACKED_ALWAYS + _UNPACKED_TIMES * len(data), _MAX_FILE)
    parts: list[bytes] = []
    length = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:  # which reads on where files were put together
            while part := file.read(_AT_ONCE):
                parts.append(part)
                length += len(part)
                if length > limit:
                    raise TraceError(f"unpacks to more than {limit} bytes, which no trace of its size does")
    except EOFError as error:
        raise TraceError("is a gzip file that is cut short") from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise TraceError("is not an intact gzip file") from error
    if not parts:
        raise TraceError("is empty")
    return b"".join(parts)
