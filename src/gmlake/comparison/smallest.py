"""The smallest device memory on which the command completes, found by running it on emulated devices of other sizes.

The search starts between peak active memory, less than which can never do, and peak reserved memory, which as a rule
suffices; it halves until it knows to within 1 %. A larger device on which the command fails nonetheless cannot be seen
this way: gmlake replay --smallest-capacity looks more closely, at a recorded trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gmlake import _core
from gmlake.comparison.trials import COMPLETED, Trial, Trials, reserved_of

PRECISION = 0.01
GRANULE = 2 << 20


def search(trials: Trials, trial: Trial) -> Trial:
    """The same trial, with its smallest memory. A trial that did not complete has none."""
    if trial.outcome != COMPLETED or trial.done.plan.device is None:
        return trial
    failures = _failures(trial)

    def completes(memory: int) -> bool:
        title = f"{trial.allocator} on {_core.format_bytes(memory)}"
        again = trials.run(trial.allocator, title, memory)
        # A program may catch the error and make do with less; that is not the same run.
        return again.outcome == COMPLETED and _failures(again) <= failures

    active = max(row["peak_active"] or 0 for row in trial.rows.values())
    return replace(
        trial,
        smallest_memory=smallest_memory(completes, active, _reserved_on_one(trial), trial.done.plan.device.memory),
    )


def smallest_memory(completes: Callable[[int], bool], low: int, high: int, most: int) -> int:
    """The least memory from `low` to `most` that completes, to within 1 %; `most` is known to, and `high` should."""
    step = max(GRANULE, round(low * PRECISION))
    low = _granules(low) - GRANULE  # all of it may be in use: then this is the largest that cannot do
    high = _granules(high)
    while high < most and not completes(high):
        low, high = high, high + step
    high = min(high, most)
    while high - low > step:
        middle = _granules((low + high) // 2)
        if completes(middle):
            high = middle
        else:
            low = middle
    return high


def _granules(size: int) -> int:
    return -(-size // GRANULE) * GRANULE


def _failures(trial: Trial) -> int:
    return sum(row["out_of_memory"] for row in trial.rows.values())


def _reserved_on_one(trial: Trial) -> int:
    """The most that the processes on one device have reserved together."""
    devices: dict[int, int] = {}
    for (_, device), row in trial.rows.items():
        devices[device] = devices.get(device, 0) + reserved_of(row)
    return max(devices.values())
