"""Traces typed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gmlake.trace import Trace

ALLOCATE, FREE, ITERATION, RECORD_STREAM, BEGIN_POOL, END_POOL, RELEASE_POOL, TRIM = range(8)
MIB = 2**20

Row = tuple[int, int, int, int]  # kind, id, size, stream
MakeTrace = Callable[[Sequence[Row]], Trace]


@pytest.fixture
def make_trace() -> MakeTrace:
    """Rows to a trace, without the reader's checks: replay must stand on its own."""

    def make(rows: Sequence[Row], name: str = "typed") -> Trace:
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return Trace(
            kind=table[:, 0].astype(np.uint8),
            id=table[:, 1].astype(np.uint32),
            size=table[:, 2].copy(),
            stream=table[:, 3].astype(np.uint32),
            name=name,
        )

    return make


@pytest.fixture
def loop_trace(make_trace: MakeTrace) -> Trace:
    """Twelve iterations of the same three allocations after a set-up of one, closed by a mark."""
    rows: list[Row] = [(ALLOCATE, 0, 5 * MIB, 0)]
    for iteration in range(12):
        first = 1 + 3 * iteration
        rows.append((ITERATION, iteration, 0, 0))
        rows += [(ALLOCATE, first + n, size, 0) for n, size in enumerate((100, 3 * MIB, 30 * MIB))]
        rows += [(FREE, first + n, 0, 0) for n in range(3)]
    rows.append((ITERATION, 12, 0, 0))
    return make_trace(rows)
