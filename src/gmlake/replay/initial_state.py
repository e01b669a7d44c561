"""The caching allocator's state when a recorded history began, from its end and its events.

A segment existed then if it is there at the end and no event made it, or if an event gives it back that
none made. A block was live if its first event frees it, or if it is live at the end and no event names it.
All else within the segments was free, in blocks as large as can be: PyTorch joins free neighbours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gmlake._core import InvalidArgument

_MIB = 1 << 20
_STEP = 512
_LIVE = "active_allocated", "active_pending_free"

Event = Mapping[str, Any]


def kind_of_segment(size: int) -> str:
    """The pool of a segment: only the small pool has segments of 2 MiB."""
    return "small" if size == 2 * _MIB else "large"


@dataclass
class Segment:
    """A segment at the beginning: blocks as (offset, size, requested), sorted; the rest of it is free."""

    address: int
    size: int
    stream: int
    kind: str
    live: list[tuple[int, int, int]] = field(default_factory=list)

    def reach(self, start: int, gone: Container[int] = ()) -> None:
        """A block begins here; the one before it reaches here if it is not gone and the gap is no block."""
        index = bisect_left(self.live, start, key=lambda block: block[0]) - 1
        if self.kind == "small" or index < 0:
            return
        offset, size, requested = self.live[index]
        if 0 < start - (offset + size) <= _MIB and self.address + offset not in gone:
            self.live[index] = (offset, start - offset, requested)

    def blocks(self) -> list[tuple[int, int, bool]]:
        """All blocks as (size, requested, active), without gaps."""
        result: list[tuple[int, int, bool]] = []
        end = 0
        for offset, size, requested in self.live:
            if offset > end:
                result.append((offset - end, 0, False))
            result.append((size, requested, True))
            end = offset + size
        if end < self.size:
            result.append((self.size - end, 0, False))
        return result


def initial_segments(segments: Iterable[Event], events: Sequence[Event]) -> list[Segment]:
    """The segments at the beginning of a history, by address, with the blocks that were live then."""
    first_of_segment = _first_events(events, {"segment_alloc", "segment_free"})
    first_of_block = _first_events(events, {"alloc", "free_requested", "free_completed"})
    final = list(segments)
    known = [
        Segment(s["address"], s["total_size"], s["stream"], s["segment_type"])
        for s in final
        if first_of_segment.get(s["address"], {}).get("action") != "segment_alloc"
    ]
    known += [
        Segment(e["addr"], e["size"], e["stream"], kind_of_segment(e["size"]))
        for e in first_of_segment.values()
        if e["action"] == "segment_free"
    ]
    known = sorted({segment.address: segment for segment in known}.values(), key=lambda s: s.address)
    for block in (block for segment in final for block in segment["blocks"]):
        if block["state"] in _LIVE and block["address"] not in first_of_block:
            _add(known, block["address"], block["size"], block["requested_size"])
    for event in first_of_block.values():
        if event["action"] != "alloc":
            _add(known, event["addr"], _rounded(event["size"]), event["size"])
    for segment in known:
        segment.live.sort()
    _give_remainders(known, events)
    return known


def _first_events(events: Iterable[Event], actions: set[str]) -> dict[int, Event]:
    first: dict[int, Event] = {}
    for event in events:
        if event["action"] in actions:
            first.setdefault(event["addr"], event)
    return first


def _containing(segments: Sequence[Segment], address: int) -> Segment | None:
    index = bisect_right(segments, address, key=lambda s: s.address) - 1
    if index < 0 or address >= segments[index].address + segments[index].size:
        return None
    return segments[index]


def _add(segments: Sequence[Segment], address: int, size: int, requested: int) -> None:
    segment = _containing(segments, address)
    if segment is None or address + size > segment.address + segment.size:
        raise InvalidArgument(f"the block at {address:#x} is in no segment that existed when the history began")
    segment.live.append((address - segment.address, size, requested))


def _give_remainders(segments: Sequence[Segment], events: Iterable[Event]) -> None:
    """Add to large blocks what was too small to be split off them.

    Every block of the large pool has more than 1 MiB. So a smaller gap belongs to the block before it: up to
    the next block, or up to where something is allocated while it is still live.
    """
    for segment in segments:
        starts = [offset for offset, _, _ in segment.live[1:]] + [segment.size]
        for start in starts if segment.live else []:
            segment.reach(start)
    gone: set[int] = set()
    for event in events:
        if event["action"] == "free_completed":
            gone.add(event["addr"])
        elif event["action"] == "alloc" and (found := _containing(segments, event["addr"])) is not None:
            found.reach(event["addr"] - found.address, gone)


def _rounded(size: int) -> int:
    return max(-(-size // _STEP) * _STEP, _STEP)
