"""The segments of a recorded allocator: what it asked of the driver, and what it held at the beginning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gmlake.trace.errors import TraceError

_SMALL = 2 << 20  # PyTorch's segments for small requests are exactly as large


@dataclass(frozen=True)
class SegmentEvent:
    """Something the recorded allocator asked of the driver, before event `index` of the trace."""

    index: int
    action: str
    address: int
    size: int
    stream: int


@dataclass(frozen=True)
class Segment:
    """A contiguous piece of reserved memory."""

    address: int
    size: int
    stream: int
    small: bool


def rewind(segments: Iterable[dict[str, Any]], events: Iterable[SegmentEvent]) -> tuple[Segment, ...]:
    """The segments before the events, in address order, from those after them."""
    found: dict[int, Segment] = {}
    for segment in segments:
        address, size, stream = (segment.get(key, 0) for key in ("address", "total_size", "stream"))
        if not all(isinstance(value, int) for value in (address, size, stream)):
            raise TraceError("has a segment without an address and a size")
        found[address] = Segment(address, size, stream, segment.get("segment_type") == "small")
    for event in sorted(events, key=lambda event: event.index, reverse=True):
        if event.action == "segment_alloc":
            found.pop(event.address, None)
        elif event.action == "segment_free":
            size = event.size
            found[event.address] = Segment(event.address, size, event.stream, size == _SMALL)
        else:
            raise TraceError(f"has a {event.action}: the beginning of expandable segments is not recorded")
    return tuple(found[address] for address in sorted(found))
