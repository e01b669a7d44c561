"""A history that starts in the middle: rebuild what was live when it began.

A recording is switched on in a running program, or keeps only the last events. An address whose first event is a free
was live before; so was a block that is live at the end and that no event ever touches. Both become allocations in front
of the history, in address order, because that is the order in which an allocator would lay them out again.
"""

from __future__ import annotations

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
    before = rows.take(live_before(rows))
    parts = [before]
    if blocks is not None:
        parts.append(blocks.take(never_touched(blocks.key, rows)))
    found = join(parts)
    found = found.take(np.argsort(found.key, kind="stable"))
    count = len(found)
    times = found.time_us
    if times is not None and rows.time_us is not None:
        times = np.full(count, rows.time_us[0] if len(rows) else 0, dtype=np.int64)
    initial = Rows(np.zeros(count, np.uint8), found.key, found.size, found.stream, found.site, times)
    return join([initial, rows]), count


def join(parts: list[Rows]) -> Rows:
    """Rows one after the other; a column that any part lacks is dropped."""
    sites = [part.site for part in parts if part.site is not None]
    times = [part.time_us for part in parts if part.time_us is not None]
    return Rows(
        np.concatenate([part.kind for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.size for part in parts]),
        np.concatenate([part.stream for part in parts]),
        np.concatenate(sites) if len(sites) == len(parts) else None,
        np.concatenate(times) if len(times) == len(parts) else None,
    )
