"""Private pools in snapshots: their numbers, and where allocations pass from one to another.

A snapshot tells of every allocation which pool it is in, not when the pool was entered and left. A run of
allocations of one pool, whatever else happens between them, gets one begin before it and one end after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlake.trace.building import Rows, shown
from gmlake.trace.errors import TraceError
from gmlake.trace.trace import Kind


class Pools:
    """Numbers private pools from 1 as they are met; 0 is the ordinary pool."""

    def __init__(self) -> None:
        """No pools yet."""
        self.numbers: dict[tuple[int, int], int] = {}

    def number(self, pool_id: Any) -> int:
        """The number of PyTorch's (capture, user) pair."""
        if pool_id is None:
            return 0
        if not (isinstance(pool_id, list | tuple) and len(pool_id) == 2 and all(isinstance(n, int) for n in pool_id)):
            raise TraceError(f"names the pool {shown(pool_id)}, expected two whole numbers")
        first, second = pool_id
        return 0 if first == second == 0 else self.numbers.setdefault((first, second), len(self.numbers) + 1)


def with_pool_events(rows: Rows, initial: int) -> tuple[Rows, int]:
    """Begin and end events where allocations pass from one pool to another."""
    if rows.pool is None or not rows.pool.any():
        return rows, initial
    made = np.flatnonzero(rows.kind == Kind.ALLOCATE)
    pool = rows.pool[made]
    previous = np.concatenate(([0], pool[:-1]))
    ends, begins = (previous != pool) & (previous > 0), (previous != pool) & (pool > 0)
    at = np.concatenate((made[ends], made[begins]))
    count = len(at)
    events = Rows(
        np.repeat(np.array([Kind.END_POOL, Kind.BEGIN_POOL], np.uint8), [ends.sum(), begins.sum()]),
        (np.concatenate((previous[ends], pool[begins])) - 1).astype(np.uint64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int32),
        None if rows.time_us is None else rows.time_us[at],
    )
    # At one place the end comes before the begin, and both before the allocation: the sort is stable.
    place = np.concatenate((at, np.arange(len(rows))))
    joined = Rows.join(events, rows).take(np.argsort(place, kind="stable"))
    return joined, initial + int(np.count_nonzero(at < initial))
