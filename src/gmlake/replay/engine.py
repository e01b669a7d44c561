"""One trace on one allocator: builds the simulated driver, runs the native loop, condenses what it counted.

Everything before the trace's first iteration mark is set-up. *Warm* means from the tenth iteration on; with
fewer than eleven iterations it means the second half of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gmlake import _core
from gmlake.replay.capacity import smallest_capacity
from gmlake.replay.result import MEMORY_CALLS, ORDERING_CALLS, AtSmallest, Result
from gmlake.trace import Trace
from gmlake.trace.trace import MAX_SIZE

ALLOCATORS = ("gmlake", "expandable", "caching", "paper")  # what is compared unless others are asked for
FIRST_WARM = 10
CHECKS = 2000  # calls of check() in one replay; every event of a short trace
SAMPLES = 4000  # points of a timeline, besides the peaks
SHORT = 0.02  # seconds; what takes less is timed again, because the first times are mostly page faults and cold caches
TURNS = 25  # at most
# Memory without end, twice what a trace may have live: a hostile one finds an end, before this machine's memory does.
ENDLESS = 2 * MAX_SIZE
ADDRESSES = 1 << 60  # bytes: expandable segments take terabytes of them for every stream

Progress = Callable[[str, int], None]  # what is running, events fed


@dataclass(frozen=True)
class Settings:
    """How to replay. No capacity means memory without end."""

    capacity: int | None = None
    cost_table: str = "a100"
    check: bool = False
    timeline: bool = False
    smallest_capacity: bool = False
    memory_map: bool = False


USUAL = Settings()


@dataclass(frozen=True)
class MemoryMap:
    """Physical memory over time. Places are bytes from the device's beginning, the lowest free one taken first."""

    held: NDArray[np.int64]  # rows of event, place, size: taken during that event, or given back if below zero
    pieces: NDArray[np.int64]  # rows of allocation, place, size: what every block was made of


@dataclass(frozen=True)
class Run:
    """A result and, if asked for, its timeline (rows of event, allocated, active, reserved) and memory map."""

    result: Result
    timeline: NDArray[np.int64] | None = None
    memory_map: MemoryMap | None = None


def replay(trace: Trace, allocator: str, settings: Settings = USUAL, progress: Progress | None = None) -> Run:
    """Replay `trace` on the allocator `NAME` or `NAME:option=value,...`."""
    outcome = _play(trace, allocator, settings, settings.capacity, progress)
    result = _condense(trace, allocator, settings.capacity, outcome)
    result = _time_again(trace, allocator, settings, result, progress)
    if settings.smallest_capacity:
        result = _search(trace, allocator, settings, result, progress)
    return Run(
        result,
        outcome.timeline if settings.timeline else None,
        MemoryMap(outcome.held, outcome.pieces) if settings.memory_map else None,
    )


def _play(
    trace: Trace, allocator: str, settings: Settings, capacity: int | None, progress: Progress | None
) -> _core.ReplayOutcome:
    if capacity is None:
        driver = _core.SimulatedDriver(capacity=ENDLESS, address_space=ADDRESSES, cost_table=settings.cost_table)
    else:
        driver = _core.SimulatedDriver(capacity=capacity, cost_table=settings.cost_table)
    if settings.memory_map:
        driver.keep_places()
    events = len(trace.kind)
    stage = "replaying" if capacity is None else f"on {capacity / 2**30:.2f} GiB"
    return _core.replay(
        trace.kind,
        trace.id,
        trace.size,
        trace.stream,
        _core.make_allocator(allocator, driver),
        driver,
        sample_every=max(1, events // SAMPLES) if settings.timeline else 0,
        check_every=max(1, events // CHECKS) if settings.check else 0,
        progress=None if progress is None else lambda fed: progress(stage, fed),
        map=driver if settings.memory_map else None,
    )


def _time_again(trace: Trace, allocator: str, settings: Settings, result: Result, progress: Progress | None) -> Result:
    """The least CPU time of several turns, if one is over too soon to be told from what went before it.

    A turn in which somebody looked on does not count: samples and checks take longer than what they look at.
    """
    quick = _unobserved(settings)
    turns = [result.cpu_seconds] if quick == settings else []
    while not turns or (len(turns) < TURNS and sum(turns) < SHORT):
        turns.append(_play(trace, allocator, quick, settings.capacity, progress).cpu_seconds)
    return replace(result, cpu_seconds=min(turns))


def _unobserved(settings: Settings) -> Settings:
    return replace(settings, check=False, timeline=False, memory_map=False)


def _search(trace: Trace, allocator: str, settings: Settings, result: Result, progress: Progress | None) -> Result:
    quick = _unobserved(settings)
    runs: dict[int, Result] = {}

    def completes(capacity: int) -> bool:
        outcome = _play(trace, allocator, quick, capacity, progress)
        if outcome.out_of_memory is None:
            runs[capacity] = _condense(trace, allocator, capacity, outcome)
        return outcome.out_of_memory is None

    _, active = _core.trace_peaks(trace.kind, trace.id, trace.size, trace.stream)
    smallest = smallest_capacity(completes, active)
    if smallest is None:
        return result
    there = runs[smallest.capacity]
    return replace(
        result,
        smallest_capacity=smallest.capacity,
        at_smallest_capacity=AtSmallest(
            retries=there.retries,
            warm_driver_calls=there.warm_driver_calls,
            warm_driver_ms=there.warm_driver_ms,
            warm_ordering_ms=there.warm_ordering_ms,
            fails_above=smallest.fails_above,
        ),
    )


def _condense(trace: Trace, allocator: str, capacity: int | None, outcome: _core.ReplayOutcome) -> Result:
    columns = {name: column for column, name in enumerate(_core.CALL_KINDS)}
    memory = [columns[name] for name in MEMORY_CALLS]
    ordering = [columns[name] for name in ORDERING_CALLS]
    calls, ms = outcome.calls, outcome.microseconds / 1000
    iterations = len(calls) - 1
    warm = warm_rows(iterations) if outcome.out_of_memory is None else slice(0, 0)
    used = outcome.peak_active / outcome.peak_reserved if outcome.peak_reserved else 1.0
    return Result(
        trace=trace.name,
        allocator=allocator,
        events=outcome.events,
        iterations=iterations,
        peak_requested=outcome.peak_requested,
        peak_active=outcome.peak_active,
        peak_reserved=outcome.peak_reserved,
        utilisation=used,
        smallest_capacity=None,
        retries=outcome.retries,
        out_of_memory=outcome.out_of_memory,
        driver_calls={name: int(calls[:, columns[name]].sum()) for name in MEMORY_CALLS},
        warm_driver_calls=_per_iteration(calls[warm][:, memory]),
        warm_driver_ms=_per_iteration(ms[warm][:, memory]),
        cpu_seconds=outcome.cpu_seconds,
        out_of_memory_message=outcome.out_of_memory_message or None,
        fragmentation=1 - used,
        capacity=capacity,
        driver_ms=float(ms[:, memory].sum()),
        ordering_calls={name: int(calls[:, columns[name]].sum()) for name in ORDERING_CALLS},
        ordering_ms=float(ms[:, ordering].sum()),
        warm_ordering_calls=_per_iteration(calls[warm][:, ordering]),
        warm_ordering_ms=_per_iteration(ms[warm][:, ordering]),
        iteration_driver_calls=tuple(calls[1:, memory].sum(axis=1).tolist()),
        iteration_driver_ms=tuple(ms[1:, memory].sum(axis=1).tolist()),
    )


def warm_rows(iterations: int) -> slice:
    """The rows of warm iterations in a table whose row 0 is the set-up and row i the i-th iteration."""
    first = FIRST_WARM if iterations > FIRST_WARM else 1 + iterations // 2
    return slice(first, iterations + 1)


def _per_iteration(rows: NDArray[np.uint64] | NDArray[np.float64]) -> float | None:
    return float(rows.sum()) / len(rows) if len(rows) else None
