"""The CSV log of RAPIDS RMM: Thread,Time,Action,Pointer,Size,Stream.

Actions are allocate, free and allocate failure. Pointers and streams are hexadecimal. A failed allocation
gave nothing and is left out. Logging may have been switched on late: what is freed without having been
allocated was live at the beginning, with the size its free gives. The time is a time of day without a date
and is not kept. Logs are read, not written.
"""

from __future__ import annotations

import numpy as np

from gmlake.trace.building import Rows, build, whole_numbers
from gmlake.trace.errors import TraceError
from gmlake.trace.history import prepend_initial
from gmlake.trace.trace import Kind, Trace

_HEADER = "Thread,Time,Action,Pointer,Size,Stream"
_KINDS = {"allocate": Kind.ALLOCATE, "free": Kind.FREE, "deallocate": Kind.FREE}
_IGNORED = {"allocate failure"}
_NOTHING = {"(nil)", "0x0", "0", "nullptr"}


def sniff(data: bytes) -> bool:
    """Does it begin with the header of an RMM log?"""
    return data.lstrip(b"\xef\xbb\xbf \r\n")[: len(_HEADER)].lower() == _HEADER.lower().encode()


def read(data: bytes, name: str, device: int | None) -> Trace:
    """The trace of an RMM log."""
    if device:
        raise TraceError(f"an RMM log holds one device only, not device {device}")
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise TraceError("is not an RMM log: it is not text") from error
    start = next(number for number, line in enumerate(lines) if line.strip()) + 1
    kinds, keys, sizes, streams = [], [], [], []
    for number, line in enumerate(lines[start:], start + 1):
        if not line or line.isspace():
            continue
        try:
            _, _, action, pointer, size, stream = line.strip().split(",")
            kind = _KINDS.get(action)
            if kind is None:
                if action in _IGNORED:
                    continue
                raise ValueError(action)
            if pointer in _NOTHING:
                continue
            keys.append(int(pointer, 16))
            sizes.append(int(size))
            streams.append(int(stream, 16))
            kinds.append(kind)
        except ValueError as error:
            expected = "thread,time,allocate|free|allocate failure,pointer,size,stream"
            raise TraceError(f"line {number} is {line.strip()[:80]!r}, expected {expected}") from error
    rows = Rows(
        np.array(kinds, dtype=np.uint8),
        whole_numbers(keys, "pointers").astype(np.uint64),
        whole_numbers(sizes, "sizes"),
        whole_numbers(streams, "streams"),
    )
    rows, initial = prepend_initial(rows)
    return build(rows, name=name, source="rmm", initial=initial)
