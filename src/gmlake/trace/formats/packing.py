"""Columns of whole numbers in few bytes, for our own format: see `gmlake.trace.formats.gmlake`.

Values are stored in the narrowest of 1, 2, 4 or 8 bytes, all low bytes first, and xz does the rest. Reading
believes no claim: the memory for a column is bounded by its claim, and its claim by what any trace can need.
"""

from __future__ import annotations

import lzma

import numpy as np

from gmlake.trace.errors import TraceError
from gmlake.trace.trace import I64, MAX_EVENTS, U64

_MAX_SITES = 1 << 28
_MEMORY_LIMIT = 128 << 20
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def distance_back(values: I64) -> I64:
    """The distance back to the last equal value, 0 where there is none."""
    order = np.argsort(values, kind="stable")
    same = values[order[1:]] == values[order[:-1]]
    back = np.zeros(len(values), dtype=np.int64)
    back[order[1:][same]] = np.diff(order)[same]
    return back


def follow_back(back: I64, new: I64) -> I64:
    """The inverse of `distance_back`, given the values that were new: chains of references are halved."""
    origin = np.arange(len(back)) - back
    if (origin < 0).any() or np.count_nonzero(back == 0) != len(new):
        raise TraceError("refers to a size that was never given")
    further = origin[origin]
    while not np.array_equal(further, origin):
        origin, further = further, further[further]
    return new[np.cumsum(back == 0) - 1][origin] if len(back) else back


def pack(values: U64) -> tuple[int, bytes]:
    """The width of the values in bytes, and the values compressed."""
    largest = int(values.max()) if len(values) else 0
    width = next(width for width in _WIDTHS if largest < 1 << 8 * width)
    narrow = values.astype(_WIDTHS[width]).view(np.uint8).reshape(-1, width)
    return width, lzma.compress(np.ascontiguousarray(narrow.T).tobytes(), preset=6)


def unpack(block: bytes, count: int, width: int, name: str) -> U64:
    """The values back; `name` is the column's, for messages."""
    limit = _MAX_SITES if name == "sites" else MAX_EVENTS
    if not 0 <= count <= limit or width not in _WIDTHS:
        raise TraceError(f"column {name!r} claims {count} values of {width} bytes, expected at most {limit} of 1 to 8")
    try:
        unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)
        packed = unpacker.decompress(block, max_length=count * width + 1)
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        raise TraceError(f"column {name!r} is damaged: it does not decompress") from error
    if len(packed) != count * width:
        raise TraceError(f"column {name!r} does not hold the {count} values it claims")
    planes = np.frombuffer(packed, dtype=np.uint8).reshape(width, count)
    return np.ascontiguousarray(planes.T).view(_WIDTHS[width]).reshape(count).astype(np.uint64)
