"""The cost of an event, against the length of the trace and against the blocks that are live."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.answer import Answer, Table
from bench.growing import ballast, follow, lengthen
from bench.how_fast_is_replay import OURS, STOCK, measure
from gmlake.trace import Trace, read_trace

QUESTION = "Does an event get dearer as a training run gets longer, or as more blocks are live?"
ALLOCATORS = (OURS, STOCK, "expandable", "paper")
LENGTHS = (1, 4, 16, 64)  # times the iterations of the trace
LIVE = (0, 1_000, 5_000, 20_000)  # blocks that stay, and as many holes between them


def answer(quick: bool) -> Answer:
    """Grow a trace in both directions."""
    repeats = 1 if quick else 3
    result = Answer(QUESTION)
    for name in ("fixed", "demo"):
        result.tables.append(_by_length(read_trace(name), LENGTHS[:3] if quick else LENGTHS, repeats))
    result.tables.append(_by_live_blocks(read_trace("demo"), LIVE, repeats))
    result.notes = [
        "Longer: the second half of the iterations over and over; what they leave is freed in between.",
        "More blocks: before the trace, blocks of its own sizes are allocated and every second one is freed.",
    ]
    return result


def _by_length(trace: Trace, lengths: Sequence[int], repeats: int) -> Table:
    table = Table(f"Nanoseconds of CPU time per event by length, trace {trace.name}", ("events", *ALLOCATORS))
    for times in lengths:
        longer = lengthen(trace, times)
        taken = measure(longer, ALLOCATORS if times <= 16 else [OURS, STOCK], repeats)
        costs = [_typical(taken[name]) / len(longer) * 1e9 if name in taken else None for name in ALLOCATORS]
        table.rows.append((len(longer), *costs))
    return table


def _by_live_blocks(trace: Trace, counts: Sequence[int], repeats: int) -> Table:
    table = Table(
        f"Nanoseconds of CPU time per event of trace {trace.name}, by blocks that were there before",
        ("live blocks", *ALLOCATORS),
    )
    for count in counts:
        before = ballast(trace, count)
        alone = measure(before, ALLOCATORS, repeats)
        both = measure(follow(before, trace), ALLOCATORS, repeats)
        costs = [(_typical(both[name]) - _typical(alone[name])) / len(trace) * 1e9 for name in ALLOCATORS]
        table.rows.append((count, *costs))
    return table


def _typical(values: Sequence[float]) -> float:
    return statistics.median(values)
