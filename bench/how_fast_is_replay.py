"""Whole traces, timed: events a second for every allocator, and our CPU time beside the caching rival's."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench import traces
from bench.answer import Answer, Table, Target, ratio
from gmlake import _core
from gmlake.replay import replay
from gmlake.trace import Trace

QUESTION = "How many events a second does a replay feed, and what do whole traces take beside PyTorch's allocator?"
OURS, STOCK = "gmlake", "caching"


def answer(quick: bool) -> Answer:
    """Replay everything, allocators taking turns."""
    repeats = 3 if quick else 9
    result = Answer(QUESTION)
    bundled, recorded = traces.bundled(), traces.recorded()
    names = [row.name for row in _core.catalogue()]
    rates = Table("Million events a second", ("trace", "events", *names))
    shares = Table("CPU time of whole traces", ("trace", "events", "gmlake ms", "caching ms", "gmlake / caching"))
    slowest, most = float("inf"), 0.0
    for trace in [*bundled, *recorded]:
        every = trace in bundled
        times = measure(trace, names if every else [OURS, STOCK], repeats)
        typical = {name: statistics.median(taken) for name, taken in times.items()}
        if every:
            rates.rows.append((trace.name, len(trace), *(len(trace) / typical[name] / 1e6 for name in names)))
        share = ratio(times[OURS], times[STOCK])
        shares.rows.append((trace.name, len(trace), typical[OURS] * 1e3, typical[STOCK] * 1e3, share))
        slowest, most = min(slowest, len(trace) / typical[OURS] / 1e6), max(most, share)
    result.tables = [rates, shares]
    result.targets = [
        Target("gmlake: million events a second, slowest trace", slowest, at_least=2),
        Target("gmlake: CPU time over caching's, worst trace", most, at_most=0.5),
    ]
    result.notes = ["CPU time of the replay loop: the allocator, the simulated driver and the feeding itself."]
    return result


def measure(trace: Trace, allocators: Sequence[str], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of every allocator in every turn."""
    times: dict[str, list[float]] = {name: [] for name in allocators}
    for _ in range(repeats):
        for name in allocators:
            times[name].append(replay(trace, name).result.cpu_seconds)
    return times
