"""A shorter trace: some iterations of a longer one, joined as if the others had never happened.

What is allocated in one iteration and freed in the next would lose its partner when the iteration between is
left out. Training repeats itself, so the allocation at the same place of the iteration that now comes before
takes the part. If there is none, the iterations differ too much to be joined and the excerpt is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gmlake.trace.building import Rows, build
from gmlake.trace.errors import TraceError
from gmlake.trace.trace import I64, Kind, Trace


def keep_iterations(trace: Trace, numbers: Sequence[int]) -> Trace:
    """What comes before the first iteration, then these iterations."""
    marks = trace.marks
    _check(numbers, trace.iterations)
    bounds = np.concatenate(([0], marks, [len(trace)]))  # iteration k is part k + 1; part 0 is what comes before
    end = [len(marks)] * (len(marks) - trace.iterations)  # a mark that ends the trace ends what is kept of it
    parts = np.concatenate(([0], np.asarray(numbers, dtype=np.int64) + 1, np.asarray(end, dtype=np.int64)))
    rows = np.concatenate([np.arange(bounds[part], bounds[part + 1]) for part in parts])
    made = np.flatnonzero(trace.kind == Kind.ALLOCATE)
    key = trace.id.astype(np.int64)
    refers = np.flatnonzero((trace.kind == Kind.FREE) | (trace.kind == Kind.RECORD_STREAM))
    refers = refers[np.isin(np.searchsorted(bounds, refers, side="right") - 1, parts)]
    partner = _partners(refers, made[trace.id[refers]], bounds, parts)
    lost = np.flatnonzero((partner < 0) | (trace.kind[partner] != Kind.ALLOCATE))
    if len(lost):
        event = refers[lost[0]]
        there, then = np.searchsorted(bounds, (event, made[trace.id[event]]), side="right") - 2
        raise TraceError(
            f"iteration {there} refers to what iteration {then} allocated, and nothing that is kept takes its part: "
            f"keep all before it as well, as in --iterations 0-{max(numbers)}"
        )
    key[refers] = trace.id[partner]
    handles = np.asarray(trace.streams, dtype=np.int64)
    everything = Rows(
        trace.kind,
        key.astype(np.uint64),
        trace.size,
        handles[trace.stream],
        site=trace.site,
        time_us=trace.time_us,
    )
    return build(
        everything.take(rows),
        name=trace.name,
        source=trace.source,
        device=trace.device,
        pools=trace.pools,
        marks_from=trace.marks_from,
        initial=trace.initial,
        call_sites=trace.call_sites,
    )


def _check(numbers: Sequence[int], there: int) -> None:
    if not len(numbers):
        raise TraceError("no iterations were asked for")
    lowest, highest = min(numbers), max(numbers)
    if lowest < 0 or highest >= there:
        asked = f"iteration {lowest} was" if lowest == highest else f"iterations {lowest} to {highest} were"
        known = f"the trace has {there}, from 0 to {there - 1}" if there else "the trace has none"
        raise TraceError(f"{asked} asked for, but {known}")
    for earlier, later in pairwise(numbers):
        if later <= earlier:
            raise TraceError(f"iteration {later} comes after {earlier}: iterations are kept in their order, each once")


def _partners(refers: I64, made: I64, bounds: I64, parts: I64) -> I64:
    """For each event that refers to an allocation, the one that takes its part; -1 if there is none."""
    part_of_event = np.searchsorted(bounds, refers, side="right") - 1
    part_of_made = np.searchsorted(bounds, made, side="right") - 1
    rank = np.searchsorted(parts, part_of_event) - (part_of_event - part_of_made)
    stand_in = np.where(rank > 0, parts[np.maximum(rank, 0)], -1)
    stand_in[part_of_made == 0] = 0
    same = part_of_made == part_of_event
    stand_in[same] = part_of_event[same]
    place = bounds[stand_in] + made - bounds[part_of_made]
    return np.where((stand_in >= 0) & (place < bounds[np.minimum(stand_in + 1, len(bounds) - 1)]), place, -1)
