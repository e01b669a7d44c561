"""The history of one device in a snapshot, as a trace.

A free is the client's act, so it happens at free_requested; the free_completed that follows is the
allocator's own business. A free_completed without its request (the history began between the two) is the free
of a block that was live at the beginning. Allocations of a private pool get pool events around each run of
them where events name pools; when a pool is released is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from gmlake.trace.building import Rows, build, insert_marks, whole_numbers
from gmlake.trace.errors import TraceError
from gmlake.trace.formats.pools import Pools, with_pool_events
from gmlake.trace.formats.sites import SiteTable
from gmlake.trace.formats.snapshot_events import COMPLETED, REQUESTED, Parts
from gmlake.trace.history import prepend_initial
from gmlake.trace.trace import I64, U64, CallSites, Kind, Trace

_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")
_STEP = re.compile(r"ProfilerStep#\d+|iteration \d+")


def read_device(snapshot: dict[str, Any], events: list[Any], segments: list[Any], device: int, name: str) -> Trace:
    """The history of one device from its events and its final segments."""
    parts = Parts(device)
    parts.add(events)
    return read_parts(snapshot, parts, segments, name)


def read_parts(snapshot: dict[str, Any], parts: Parts, segments: list[Any], name: str) -> Trace:
    """The history of one device from its events, part by part, and its final segments."""
    whole = parts.joined()
    folded = _fold(whole.code, whole.rows.key)
    rows = whole.rows.take(folded)
    blocks = _blocks(segments, rows, parts.pools, parts.sites)
    rows, initial = prepend_initial(rows, blocks)
    rows, initial = with_pool_events(rows, initial)
    call_sites: CallSites | None = parts.sites.finish()
    trace = build(
        rows,
        name=name,
        source="snapshot",
        device=parts.device,
        pools=tuple(parts.pools.numbers),
        initial=initial,
        call_sites=call_sites,
    )
    if len(trace) != len(rows):
        raise TraceError("has an allocation of 0 bytes, which PyTorch never records")
    marks = _steps(trace, snapshot, parts.device)
    return insert_marks(trace, marks, "recorded") if len(marks) else trace


def _fold(code: I64, address: U64) -> I64:
    """Indices of the events to keep: all but the free_completed that follows a free_requested."""
    order = np.argsort(address, kind="stable")
    follows = np.zeros(len(order), dtype=bool)
    same = address[order[1:]] == address[order[:-1]]
    follows[1:] = same & (code[order[1:]] == COMPLETED) & (code[order[:-1]] == REQUESTED)
    keep = np.ones(len(order), dtype=bool)
    keep[order[follows]] = False
    return np.flatnonzero(keep)


def _blocks(segments: Iterable[dict[str, Any]], rows: Rows, pools: Pools, sites: SiteTable) -> Rows:
    """The blocks that are active at the end, as ALLOCATE rows."""
    found: list[tuple[int, int, int, int, int]] = []
    seen: set[int] = set()  # a pickle may name one list any number of times
    for segment in segments:
        address, blocks = segment.get("address"), segment.get("blocks", [])
        if not isinstance(address, int) or not isinstance(blocks, list):
            raise TraceError("has a segment without an address or a list of blocks")
        if blocks and id(blocks) in seen:
            raise TraceError("has the same blocks in two segments")
        seen.add(id(blocks))
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
