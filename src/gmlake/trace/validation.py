"""Does a trace make sense? Every rule that replay relies on, checked in one vectorised pass over the columns.

A violation is a TraceError that names the event's index and its allocation. This file judges; it repairs
nothing.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from gmlake.trace.errors import TraceError
from gmlake.trace.trace import I64, MAX_DEVICES, MAX_OPEN_POOLS, MAX_POOLS, MAX_SIZE, Kind, MarksFrom, Trace

_COLUMNS = {"kind": np.uint8, "id": np.uint32, "size": np.int64, "stream": np.uint32}


def validate(trace: Trace) -> None:
    """Raise TraceError unless the trace keeps every rule of `Trace`."""
    _check_columns(trace)
    _check_allocations(trace)
    _check_uses(trace)
    _check_live(trace)
    _check_marks_and_pools(trace)


def _first(violation: npt.NDArray[Any]) -> int | None:
    hits = np.flatnonzero(violation)
    return int(hits[0]) if len(hits) else None


def _check_columns(trace: Trace) -> None:
    for name, dtype in _COLUMNS.items():
        column = getattr(trace, name)
        if column.dtype != dtype or column.shape != trace.kind.shape:
            expected = f"{np.dtype(dtype)}[{len(trace)}]"
            raise TraceError(f"column {name} is {column.dtype}{list(column.shape)}, expected {expected}")
    for name in ("site", "time_us"):
        column = getattr(trace, name)
        if column is not None and len(column) != len(trace):
            raise TraceError(f"column {name} has {len(column)} rows, expected {len(trace)}")
    index = _first(trace.kind > max(Kind))
    if index is not None:
        raise TraceError(f"event {index} is of kind {trace.kind[index]}, expected 0 to {max(Kind)}")
    index = _first(trace.stream >= max(len(trace.streams), 1))
    if index is not None:
        raise TraceError(f"event {index} is on stream {trace.stream[index]}, expected below {len(trace.streams)}")
    if not 0 <= trace.device < MAX_DEVICES:
        raise TraceError(f"is of device {trace.device}, expected 0 to {MAX_DEVICES - 1}")
    if any(not -(2**63) <= handle < 2**63 for handle in trace.streams):
        raise TraceError("has a stream whose handle is not a number of 64 bits")
    if not 0 <= trace.initial <= len(trace):
        raise TraceError(f"{trace.initial} initial events, expected 0 to {len(trace)}")
    rebuilding = (Kind.ALLOCATE, Kind.BEGIN_POOL, Kind.END_POOL)
    index = _first(~np.isin(trace.kind[: trace.initial], rebuilding))
    if index is not None:
        raise TraceError(f"event {index} is among the initial ones and may only allocate")
    if trace.site is not None:
        known = 0 if trace.call_sites is None else len(trace.call_sites.stacks)
        index = _first((trace.site < -1) | (trace.site >= known))
        if index is not None:
            raise TraceError(f"event {index} has call site {trace.site[index]}, expected -1 to {known - 1}")


def _check_allocations(trace: Trace) -> None:
    made = np.flatnonzero(trace.kind == Kind.ALLOCATE)
    index = _first(trace.id[made] != np.arange(len(made)))
    if index is not None:
        raise TraceError(f"event {made[index]} allocates id {trace.id[made[index]]}, expected {index}")
    index = _first((trace.size[made] <= 0) | (trace.size[made] > MAX_SIZE))
    if index is not None:
        size = trace.size[made[index]]
        raise TraceError(f"event {made[index]} allocates {size} bytes (id {index}), expected 1 to {MAX_SIZE}")
    index = _first((trace.size != 0) & (trace.kind != Kind.ALLOCATE))
    if index is not None:
        raise TraceError(f"event {index} has size {trace.size[index]} but allocates nothing, expected 0")


def _check_uses(trace: Trace) -> None:
    made = np.flatnonzero(trace.kind == Kind.ALLOCATE)
    freed_at = np.full(len(made), len(trace), dtype=np.int64)
    for kind, verb in ((Kind.FREE, "frees"), (Kind.RECORD_STREAM, "records a stream for")):
        events = np.flatnonzero(trace.kind == kind)
        ids = trace.id[events].astype(np.int64)
        unknown = ids >= len(made)
        unknown[~unknown] = made[ids[~unknown]] > events[~unknown]
        index = _first(unknown)
        if index is not None:
            raise TraceError(f"event {events[index]} {verb} id {ids[index]}, which was never allocated before it")
        if kind == Kind.FREE:
            # Assigned from the last event to the first, so that each id keeps its earliest free.
            freed_at[ids[::-1]] = events[::-1]
        index = _first(freed_at[ids] < events)
        if index is not None:
            raise TraceError(
                f"event {events[index]} {verb} id {ids[index]}, which event {freed_at[ids[index]]} had freed"
            )


def _check_live(trace: Trace) -> None:
    change = trace.size.astype(np.float64)  # whole numbers up to 2**53, and no overflow beyond
    freed = trace.kind == Kind.FREE
    change[freed] = -change[trace.kind == Kind.ALLOCATE][trace.id[freed]]
    index = _first(np.cumsum(change, out=change) > MAX_SIZE)
    if index is not None:
        raise TraceError(f"has {change[index]:.0f} bytes live at event {index}, expected at most {MAX_SIZE}")


def _check_marks_and_pools(trace: Trace) -> None:
    marks: I64 = trace.marks
    index = _first(trace.id[marks] != np.arange(len(marks)))
    if index is not None:
        raise TraceError(f"event {marks[index]} starts iteration {trace.id[marks[index]]}, expected {index}")
    if trace.marks_from not in get_args(MarksFrom):
        raise TraceError(f"marks_from is {trace.marks_from!r}, expected one of {', '.join(get_args(MarksFrom))}")
    if (len(marks) == 0) != (trace.marks_from == "none"):
        raise TraceError(f"{len(marks)} iteration marks are said to be from {trace.marks_from!r}")
    if len(trace.pools) > MAX_POOLS:
        raise TraceError(f"has {len(trace.pools)} private pools, more than the {MAX_POOLS} that are supported")
    open_pools: list[int] = []
    for event in np.flatnonzero((trace.kind >= Kind.BEGIN_POOL) & (trace.kind <= Kind.RELEASE_POOL)):
        kind, pool = int(trace.kind[event]), int(trace.id[event])
        if pool >= len(trace.pools):
            raise TraceError(f"event {event} names pool {pool}, expected below {len(trace.pools)}")
        if kind == Kind.BEGIN_POOL:
            open_pools.append(pool)
            if len(open_pools) > MAX_OPEN_POOLS:
                raise TraceError(f"event {event} opens a pool inside {MAX_OPEN_POOLS} others, which are too many")
        elif kind == Kind.END_POOL:
            if pool not in open_pools:
                raise TraceError(f"event {event} ends pool {pool}, which is not open")
            open_pools.remove(pool)
