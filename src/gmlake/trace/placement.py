"""Addresses for a trace that has none, so that it can be drawn.

This is no allocator of the product and predicts nothing; it only packs well enough for a picture: best fit
with coalescing, one line of addresses per stream and pool. Sizes are rounded up to 512 bytes, a freed block
merges with its neighbours, and the smallest hole that fits is used at its low end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np

from gmlake.trace.errors import TraceError
from gmlake.trace.trace import U64, Kind, Trace

_GRAIN = 512
_SEGMENT_GRAIN = 2 << 20
_FIRST_ADDRESS = 0x7F0000000000


@dataclass
class Line:
    """A growing span of addresses, counted from its own beginning."""

    stream: int  # number
    pool: int  # number + 1, 0 for none
    top: int = 0
    address: int = 0  # where the line begins, known when its size is
    by_size: list[tuple[int, int]] = field(default_factory=list)  # holes as (size, start), sorted
    starts: dict[int, int] = field(default_factory=dict)  # hole start -> size
    ends: dict[int, int] = field(default_factory=dict)  # hole end -> start

    def take(self, size: int) -> int:
        """The start of a free span of this size."""
        place = bisect_left(self.by_size, (size, 0))
        if place == len(self.by_size):
            self.top += size
            return self.top - size
        hole, start = self.by_size.pop(place)
        del self.starts[start], self.ends[start + hole]
        if hole > size:
            self._add(start + size, hole - size)
        return start

    def give(self, start: int, size: int) -> None:
        """Take a span back and merge it with its neighbours."""
        after = self.starts.get(start + size)
        if after is not None:
            self._drop(start + size, after)
            size += after
        before = self.ends.get(start)
        if before is not None:
            self._drop(before, start - before)
            start, size = before, size + start - before
        self._add(start, size)

    @property
    def size(self) -> int:
        """Bytes of the segment that covers the line."""
        return -(-self.top // _SEGMENT_GRAIN) * _SEGMENT_GRAIN

    def _add(self, start: int, size: int) -> None:
        insort(self.by_size, (size, start))
        self.starts[start], self.ends[start + size] = size, start

    def _drop(self, start: int, size: int) -> None:
        del (
            self.by_size[bisect_left(self.by_size, (size, start))],
            self.starts[start],
            self.ends[start + size],
        )


def rounded(size: int) -> int:
    """The bytes that a request occupies."""
    return -(-size // _GRAIN) * _GRAIN


def place(trace: Trace) -> tuple[U64, list[int], list[Line]]:
    """The address of every allocation, the index of its line, and the lines."""
    offset, line_of, size_of = [0] * trace.allocations, [0] * trace.allocations, [0] * trace.allocations
    numbers: dict[tuple[int, int], int] = {}
    lines: list[Line] = []
    open_pools: list[int] = []
    columns = (trace.kind.tolist(), trace.id.tolist(), trace.size.tolist(), trace.stream.tolist())
    for kind, number, size, stream in zip(*columns, strict=True):
        if kind == Kind.ALLOCATE:
            key = (stream, open_pools[-1] if open_pools else 0)
            index = numbers.setdefault(key, len(lines))
            if index == len(lines):
                lines.append(Line(*key))
            line_of[number], size_of[number] = index, rounded(size)
            offset[number] = lines[index].take(size_of[number])
        elif kind == Kind.FREE:
            lines[line_of[number]].give(offset[number], size_of[number])
        elif kind == Kind.BEGIN_POOL:
            open_pools.append(number + 1)
        elif kind == Kind.END_POOL:
            open_pools.remove(number + 1)
    address = _FIRST_ADDRESS
    for line in lines:
        line.address = address
        address += line.size
    if address >= 1 << 63:
        raise TraceError(f"its {len(lines)} streams and pools need more addresses than there are")
    bases = np.array([line.address for line in lines], dtype=np.uint64)
    places = np.array(offset, dtype=np.uint64)
    return places + bases[line_of] if lines else places, line_of, lines
