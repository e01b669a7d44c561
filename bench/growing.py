"""Traces made longer or fuller: iterations repeated, blocks that were there before."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gmlake.trace import Kind, Trace
from gmlake.trace.trace import I64, U32

LARGEST_BALLAST = 4 << 20  # 20 000 blocks of up to 4 MiB are what a large device can hold
Columns = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def lengthen(trace: Trace, times: int) -> Trace:
    """The trace with the second half of its iterations `times` times."""
    marks = trace.marks
    body = np.arange(marks[len(marks) // 2], len(trace))
    kind, ids = trace.kind[body], trace.id[body]
    inside = ids[kind == Kind.ALLOCATE]
    kept = np.setdiff1d(inside, ids[kind == Kind.FREE])
    # What came from outside can be freed once only: the last time.
    own = ~np.isin(kind, (Kind.FREE, Kind.RECORD_STREAM)) | np.isin(ids, inside)
    result = _columns(trace, np.arange(body[0]))
    for time in range(times):
        again = _columns(trace, body if time == times - 1 else body[own])
        if time < times - 1:
            again = _joined(again, _frees(kept))
        result = _joined(result, _renumbered(again, inside.min() if len(inside) else 0, time * trace.allocations))
    return _trace(trace, f"{trace.name} x{times}", result)


def ballast(trace: Trace, count: int) -> Trace:
    """Twice `count` blocks of the smaller sizes that the trace uses, of which every second is freed."""
    random = np.random.default_rng(1)
    sizes = trace.size[(trace.kind == Kind.ALLOCATE) & (trace.size <= LARGEST_BALLAST)]
    ids = np.arange(2 * count, dtype=np.uint32)
    made = (
        np.full(len(ids), Kind.ALLOCATE, np.uint8),
        ids,
        random.choice(sizes, len(ids)),
        np.zeros(len(ids), np.uint32),
    )
    return _trace(trace, "ballast", _joined(made, _frees(ids[::2])))


def follow(first: Trace, second: Trace) -> Trace:
    """One trace after the other."""
    every = _columns(second, np.arange(len(second)))
    return _trace(
        second,
        second.name,
        _joined(_columns(first, np.arange(len(first))), _renumbered(every, 0, first.allocations)),
    )


def _columns(trace: Trace, rows: I64) -> Columns:
    return trace.kind[rows], trace.id[rows], trace.size[rows], trace.stream[rows]


def _frees(ids: U32) -> Columns:
    zero = np.zeros(len(ids))
    return np.full(len(ids), Kind.FREE, np.uint8), ids, zero.astype(np.int64), zero.astype(np.uint32)


def _renumbered(columns: Columns, first: int, shift: int) -> Columns:
    """Allocations from `first` on get ids that are larger by `shift`."""
    kind, ids, size, stream = columns
    moved = np.isin(kind, (Kind.ALLOCATE, Kind.FREE, Kind.RECORD_STREAM)) & (ids >= first)
    return kind, np.where(moved, ids + shift, ids).astype(np.uint32), size, stream


def _joined(one: Columns, other: Columns) -> Columns:
    kind, ids, size, stream = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    return kind, ids, size, stream


def _trace(like: Trace, name: str, columns: Columns) -> Trace:
    kind, ids, size, stream = columns
    return Trace(kind, ids, size, stream, name=name, streams=like.streams, marks_from=like.marks_from)
