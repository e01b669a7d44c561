"""The history of one device in a snapshot, as a trace, with what the recorded allocator did beside it.

A free is the client's act, so it happens at free_requested; the free_completed that follows is the
allocator's own business. A free_completed without its request (the history began between the two) is the free
of a block that was live at the beginning. Allocations of a private pool get pool events around each run of
them where events name pools; when a pool is released is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlake.trace.building import Rows, build, insert_marks, whole_numbers
from gmlake.trace.errors import TraceError
from gmlake.trace.formats.pools import Pools, with_pool_events
from gmlake.trace.formats.segments import Segment, SegmentEvent, rewind
from gmlake.trace.formats.sites import SiteTable
from gmlake.trace.history import prepend_initial
from gmlake.trace.trace import I64, U8, U64, CallSites, Kind, Trace

_ALLOC, _REQUESTED, _COMPLETED, _SEGMENT, _OTHER = range(5)
_CODES = {
    "alloc": _ALLOC,
    "free_requested": _REQUESTED,
    "free_completed": _COMPLETED,
    "segment_alloc": _SEGMENT,
    "segment_free": _SEGMENT,
    "segment_map": _SEGMENT,
    "segment_unmap": _SEGMENT,
}
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")
_STEP = re.compile(r"ProfilerStep#\d+|iteration \d+")


@dataclass(frozen=True)
class History:
    """A trace and what was recorded of the allocator that served it."""

    trace: Trace
    address: U64  # of every allocation, by its number
    segments: tuple[dict[str, Any], ...]  # at the end, as the snapshot has them
    segment_events: tuple[SegmentEvent, ...]

    def first_segments(self) -> tuple[Segment, ...]:
        """The segments when the history began, in address order."""
        return rewind(self.segments, self.segment_events)


def read_device(snapshot: dict[str, Any], events: list[Any], segments: list[Any], device: int, name: str) -> History:
    """The history of one device from its events and its final segments."""
    if not all(isinstance(event, dict) for event in events):
        raise TraceError(f"has events of device {device} that are not dicts")
    actions = [event.get("action") for event in events]
    if not all(isinstance(action, str) for action in actions):
        raise TraceError(f"has events of device {device} without an action")
    code = np.array([_CODES.get(action, _OTHER) for action in actions])
    of_client = np.flatnonzero(code <= _COMPLETED)
    if not len(of_client):
        raise TraceError(f"has a history of device {device} in which nothing is allocated or freed")
    address = whole_numbers([events[index].get("addr") for index in of_client], "'addr' of the events")
    folded = _fold(code[of_client], address)
    kept = of_client[folded]
    pools = Pools()
    sites = SiteTable()
    rows = _rows([events[index] for index in kept], code[kept], address[folded], pools, sites)
    blocks = _blocks(segments, rows, pools, sites)
    rows, initial = prepend_initial(rows, blocks)
    origin = np.concatenate((np.zeros(initial, np.int64), kept))
    rows, initial, origin = with_pool_events(rows, initial, origin)
    call_sites: CallSites | None = sites.finish()
    trace = build(
        rows,
        name=name,
        source="snapshot",
        device=device,
        pools=tuple(pools.numbers),
        initial=initial,
        call_sites=call_sites,
    )
    if len(trace) != len(rows):
        raise TraceError("has an allocation of 0 bytes, which PyTorch never records")
    marks = _steps(trace, snapshot, device)
    return History(
        trace=insert_marks(trace, marks, "recorded") if len(marks) else trace,
        address=rows.key[rows.kind == Kind.ALLOCATE],
        segments=tuple(segments),
        segment_events=tuple(
            _segment_events(events, np.flatnonzero(code == _SEGMENT), origin[initial:], initial, marks)
        ),
    )


def _fold(code: I64, address: I64) -> I64:
    """Indices of the events to keep: all but the free_completed that follows a free_requested."""
    order = np.argsort(address, kind="stable")
    follows = np.zeros(len(order), dtype=bool)
    same = address[order[1:]] == address[order[:-1]]
    follows[1:] = same & (code[order[1:]] == _COMPLETED) & (code[order[:-1]] == _REQUESTED)
    keep = np.ones(len(order), dtype=bool)
    keep[order[follows]] = False
    return np.flatnonzero(keep)


def _rows(events: list[dict[str, Any]], code: I64, address: I64, pools: Pools, sites: SiteTable) -> Rows:
    kind: U8 = np.where(code == _ALLOC, Kind.ALLOCATE, Kind.FREE).astype(np.uint8)
    times = None
    if all("time_us" in event for event in events):
        times = whole_numbers([event["time_us"] for event in events], "'time_us' of the events")
    pool = None
    if any("pool_id" in event for event in events):
        pool = np.array([pools.number(event.get("pool_id")) for event in events], dtype=np.int64)
    made = (code == _ALLOC).tolist()
    site = [sites.number(event.get("frames")) if is_made else -1 for event, is_made in zip(events, made, strict=True)]
    return Rows(
        kind,
        address.astype(np.uint64),
        whole_numbers([event.get("size") for event in events], "'size' of the events"),
        whole_numbers([event.get("stream", 0) for event in events], "'stream' of the events"),
        pool,
        np.array(site, dtype=np.int32),
        times,
    )


def _blocks(segments: Iterable[dict[str, Any]], rows: Rows, pools: Pools, sites: SiteTable) -> Rows:
    """The blocks that are active at the end, as ALLOCATE rows."""
    found: list[tuple[int, int, int, int, int]] = []
    for segment in segments:
        address, blocks = segment.get("address"), segment.get("blocks", [])
        if not isinstance(address, int) or not isinstance(blocks, list):
            raise TraceError("has a segment without an address or a list of blocks")
        pool = pools.number(segment.get("segment_pool_id")) if rows.pool is not None else 0
        for block in blocks:
            if not isinstance(block, dict) or not isinstance(block.get("size"), int):
                raise TraceError(f"has a block without a size in the segment at {address:#x}")
            if block.get("state") in _ACTIVE:
                requested = _requested(block)
                site = sites.number(block.get("frames"))
                found.append((block.get("address", address), requested, segment.get("stream", 0), pool, site))
            address += block["size"]
    columns = [list(column) for column in zip(*found, strict=True)] if found else [[], [], [], [], []]
    numbers = [whole_numbers(column, "a segment's blocks") for column in columns]
    return Rows(
        np.full(len(found), Kind.ALLOCATE, dtype=np.uint8),
        numbers[0].astype(np.uint64),
        numbers[1],
        numbers[2],
        None if rows.pool is None else numbers[3],
        numbers[4].astype(np.int32),
        None if rows.time_us is None else np.zeros(len(found), dtype=np.int64),
    )


def _requested(block: dict[str, Any]) -> Any:
    """Before PyTorch 2.1 the requested size was in the block's own history."""
    if "requested_size" in block:
        return block["requested_size"]
    history = block.get("history")
    if isinstance(history, list) and history and isinstance(history[0], dict):
        return history[0].get("real_size", block["size"])
    return block["size"]


def _segment_events(
    events: list[dict[str, Any]], indices: I64, origin: I64, initial: int, marks: I64
) -> Iterable[SegmentEvent]:
    places = np.searchsorted(origin, indices) + initial
    places += np.searchsorted(marks, places, side="right")
    for place, raw in zip(places.tolist(), indices.tolist(), strict=True):
        event = events[raw]
        address, size, stream = (event.get(key, 0) for key in ("addr", "size", "stream"))
        if not all(isinstance(value, int) for value in (address, size, stream)):
            raise TraceError(f"has a {event['action']} without an address and a size")
        yield SegmentEvent(place, event["action"], address, size, stream)


def _steps(trace: Trace, snapshot: dict[str, Any], device: int) -> I64:
    """The events before which the steps of a profiler begin, if the snapshot has steps and times."""
    annotations = snapshot.get("external_annotations")
    if not isinstance(annotations, list) or trace.time_us is None:
        return np.empty(0, dtype=np.int64)
    times = [
        annotation.get("time_us")
        for annotation in annotations
        if isinstance(annotation, dict)
        and annotation.get("stage") == "START"
        and annotation.get("device", device) == device
        and isinstance(annotation.get("name"), str)
        and _STEP.fullmatch(annotation["name"])
    ]
    begins = np.sort(whole_numbers(times, "'time_us' of the annotations"))
    clock = np.maximum.accumulate(trace.time_us[trace.initial :])
    return np.searchsorted(clock, begins) + trace.initial
