"""A history that starts in the middle: rebuild what was live when it began.

A recording is switched on in a running program, or keeps only the last events. An address whose first event
is a free was live before; so was a block that is live at the end and that no event ever touches. Both become
allocations in front of the history, in address order, because that is the order in which an allocator would
lay them out again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gmlake.trace.building import Rows
from gmlake.trace.trace import I64, U64, Kind


def live_before(rows: Rows) -> I64:
    """Indices of the frees (or uses) that are the first event of their address."""
    about = np.flatnonzero(np.isin(rows.kind, (Kind.ALLOCATE, Kind.FREE, Kind.RECORD_STREAM)))
    first = about[np.unique(rows.key[about], return_index=True)[1]]
    return np.sort(first[rows.kind[first] != Kind.ALLOCATE])


def never_touched(addresses: U64, rows: Rows) -> npt.NDArray[np.bool_]:
    """Which of these blocks, live at the end, no event names."""
    untouched: npt.NDArray[np.bool_] = ~np.isin(addresses, rows.key)
    return untouched


def prepend_initial(rows: Rows, blocks: Rows | None = None) -> tuple[Rows, int]:
    """The rows with what was live before them in front, and how many that is.

    `blocks` are the blocks that are live at the end, as ALLOCATE rows.
    """
    found = rows.take(live_before(rows))
    if blocks is not None:
        found = Rows.join(found, blocks.take(never_touched(blocks.key, rows)))
    found = found.take(np.argsort(found.key, kind="stable"))
    initial = replace(found, kind=np.full(len(found), Kind.ALLOCATE, dtype=np.uint8))
    if initial.time_us is not None and rows.time_us is not None and len(rows):
        initial = replace(initial, time_us=np.full(len(found), rows.time_us[0]))
    return Rows.join(initial, rows), len(found)
