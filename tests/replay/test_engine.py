"""Replays of hand-made traces, against figures worked out by hand."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from gmlake import _core
from gmlake._core import SimulatedDriver, make_allocator
from gmlake.errors import InvalidArgument
from gmlake.replay import Settings, replay
from gmlake.replay.engine import _play, warm_rows
from gmlake.trace import Trace, read_trace

from .conftest import (
    ALLOCATE,
    BEGIN_POOL,
    END_POOL,
    FREE,
    MIB,
    RECORD_STREAM,
    RELEASE_POOL,
    TRIM,
    MakeTrace,
    Row,
)


def test_caching_by_hand(loop_trace: Trace) -> None:
    """5 and 3 MiB share a segment of 20, 100 B need one of 2, 30 MiB one of its own; all are cached."""
    result = replay(loop_trace, "caching").result
    assert result.iterations == 12
    assert result.events == len(loop_trace)
    assert result.peak_requested == 38 * MIB + 100
    assert result.peak_active == 38 * MIB + 512
    assert result.peak_reserved == 52 * MIB
    assert result.utilisation == result.peak_active / result.peak_reserved
    assert result.fragmentation == 1 - result.utilisation
    assert (result.driver_calls["allocate"], result.driver_calls["free"]) == (3, 0)
    assert result.iteration_driver_calls == (2,) + (0,) * 11
    assert (result.warm_driver_calls, result.warm_driver_ms) == (0, 0)
    assert (result.out_of_memory, result.retries) == (None, 0)


def test_native_by_hand(loop_trace: Trace) -> None:
    """Every allocation and every free is a call of the driver."""
    result = replay(loop_trace, "native").result
    assert (result.driver_calls["allocate"], result.driver_calls["free"]) == (1 + 3 * 12, 3 * 12)
    assert result.iteration_driver_calls == (6,) * 12
    assert result.warm_driver_calls == 6
    assert result.warm_driver_ms is not None
    assert result.warm_driver_ms > 0


def test_the_peak_is_of_the_trace_and_the_same_for_all(loop_trace: Trace) -> None:
    peaks = {replay(loop_trace, name).result.peak_active for name in ("native", "caching", "expandable")}
    assert peaks == {38 * MIB + 512}


def test_memory_recorded_on_a_stream_counts_until_its_free(make_trace: MakeTrace) -> None:
    rows = [(ALLOCATE, 0, 4 * MIB, 0), (RECORD_STREAM, 0, 0, 1), (FREE, 0, 0, 0), (ALLOCATE, 1, 4 * MIB, 0)]
    assert replay(make_trace(rows), "caching").result.peak_active == 4 * MIB


def test_running_out_of_memory_stops_at_the_event(loop_trace: Trace) -> None:
    result = replay(loop_trace, "caching", Settings(capacity=40 * MIB)).result
    assert result.out_of_memory == 4  # the first 30 MiB: 22 MiB are in use and cannot be given back
    assert result.events == 4
    assert result.warm_driver_calls is None
    assert result.needs is None


def test_peaks_are_those_of_what_was_fed(make_trace: MakeTrace) -> None:
    """Also if the ids before the end of memory are far larger than the number of events up to it."""
    large = [(ALLOCATE, 5000, 3 * MIB, 0), (ALLOCATE, 5001, 90 * MIB, 0), (FREE, 5000, 0, 0), (FREE, 5001, 0, 0)]
    small = [row for id in range(2000) for row in ((ALLOCATE, id, 512, 0), (FREE, id, 0, 0))]
    result = replay(make_trace(large + small), "native", Settings(capacity=50 * MIB)).result
    assert (result.out_of_memory, result.peak_requested, result.peak_active) == (1, 3 * MIB, 3 * MIB)


def test_smallest_capacity_by_hand(loop_trace: Trace) -> None:
    result = replay(loop_trace, "caching", Settings(smallest_capacity=True)).result
    assert result.smallest_capacity == 52 * MIB
    assert result.at_smallest_capacity is not None
    assert result.at_smallest_capacity.fails_above == ()


def test_a_capacity_that_is_not_monotone(make_trace: MakeTrace) -> None:
    """On 70 MiB the 40 do not fit beside the cached 16 + 16, which are given back: 40 + 30 fit at the end.

    On 72 MiB they do fit, the last 16 go into an old segment of 16, and at the end 40 + 16 + 30 do not fit.
    """
    sizes = (16, 16, 40, 22, 16, 30)
    a, b, c, d, e, f = ((ALLOCATE, number, size * MIB, 0) for number, size in enumerate(sizes))
    rows = [a, b, (FREE, 1, 0, 0), (FREE, 0, 0, 0), c, (FREE, 2, 0, 0), d, e, f]
    result = replay(make_trace(rows), "caching", Settings(smallest_capacity=True)).result
    assert result.peak_active == 68 * MIB
    assert result.smallest_capacity == 70 * MIB
    assert result.at_smallest_capacity is not None
    assert result.at_smallest_capacity.retries == 1
    assert result.at_smallest_capacity.fails_above == (72 * MIB, 74 * MIB, 78 * MIB)


def test_pools_and_trim_are_fed(make_trace: MakeTrace) -> None:
    rows = [
        (BEGIN_POOL, 0, 0, 0),
        (ALLOCATE, 0, 3 * MIB, 0),
        (END_POOL, 0, 0, 0),
        (ALLOCATE, 1, 3 * MIB, 0),
        (FREE, 0, 0, 0),
        (FREE, 1, 0, 0),
        (RELEASE_POOL, 0, 0, 0),
        (TRIM, 0, 0, 0),
    ]
    result = replay(make_trace(rows), "caching").result
    assert result.peak_reserved == 40 * MIB  # the pool shares no segment with the rest
    assert result.driver_calls["free"] == 2


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (
            [(ALLOCATE, 0, 1, 0), (FREE, 0, 0, 0), (FREE, 0, 0, 0)],
            "event 2 .*allocation 0 is freed but not live",
        ),
        ([(FREE, 7, 0, 0)], "event 0 .*allocation 7 is freed but not live"),
        ([(RECORD_STREAM, 3, 0, 0)], "event 0 .*allocation 3 is recorded on a stream but not live"),
        ([(ALLOCATE, 0, 1, 0), (ALLOCATE, 0, 1, 0)], "event 1 .*allocation 0 is allocated again"),
        ([(ALLOCATE, 0, -5, 0)], "event 0 .*size -5"),
        ([(9, 0, 0, 0)], "event 0 .*kind 9"),
        ([(ALLOCATE, 4_000_000_000, 1, 0)], "id 4000000000 is too large"),
    ],
)
def test_a_trace_that_contradicts_itself(make_trace: MakeTrace, rows: list[Row], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        replay(make_trace(rows), "caching")


def test_a_trace_that_contradicts_itself_reaches_no_allocator(make_trace: MakeTrace) -> None:
    trace = make_trace([(ALLOCATE, 0, MIB, 0), (FREE, 0, 0, 0), (FREE, 0, 0, 0)])
    driver = SimulatedDriver()
    allocator = make_allocator("native", driver)
    with pytest.raises(InvalidArgument, match="event 2"):
        _core.replay(trace.kind, trace.id, trace.size, trace.stream, allocator, driver)
    assert driver.counts()["allocate"][0] == 0


def test_an_empty_trace(make_trace: MakeTrace) -> None:
    result = replay(make_trace([]), "caching").result
    assert (result.events, result.iterations, result.peak_reserved, result.utilisation) == (0, 0, 0, 1.0)


def test_memory_without_end_has_addresses_without_end(make_trace: MakeTrace) -> None:
    """Expandable segments reserve 2.25 TiB of them for each stream and pool."""
    trace = make_trace([(ALLOCATE, number, 512 if number % 2 else 4 * MIB, number // 2) for number in range(400)])
    assert replay(trace, "expandable").result.out_of_memory is None


@pytest.mark.parametrize("allocator", ["gmlake", "paper"])
def test_the_timeline_holds_the_peak_of_what_is_active(allocator: str) -> None:
    """Wherever it lies between points that are a hundred events apart. Blocks may be larger than what was asked for."""
    run = replay(read_trace("fixed"), allocator, Settings(timeline=True))
    assert run.timeline is not None
    assert run.timeline[:, 2].max() >= run.result.peak_active


def test_the_timeline_holds_the_peak_and_the_end(loop_trace: Trace) -> None:
    timeline = replay(loop_trace, "caching", Settings(timeline=True)).timeline
    assert timeline is not None
    assert timeline[:, 3].max() == 52 * MIB
    assert timeline[-1].tolist() == [len(loop_trace) - 1, 5 * MIB, 5 * MIB, 52 * MIB]


@pytest.mark.parametrize(
    ("seconds", "settings", "turns"),
    [
        ([0.4e-3, 0.2e-3, *[0.3e-3] * 23], Settings(), 25),
        ([15e-3, 9e-3], Settings(), 2),
        ([90e-3, 19e-3, 18e-3], Settings(check=True), 3),  # the first is not of the allocator alone
        ([90e-3, 50e-3], Settings(timeline=True), 2),
    ],
)
def test_a_short_replay_is_timed_again(
    loop_trace: Trace, monkeypatch: pytest.MonkeyPatch, seconds: list[float], settings: Settings, turns: int
) -> None:
    """Up to 25 times, until 20 ms are over; the least counts. Turns in which somebody looked on do not."""
    played = iter(seconds)

    def play(*arguments: object) -> SimpleNamespace:
        outcome = _play(*arguments)  # type: ignore[arg-type]
        columns = {name: getattr(outcome, name) for name in dir(outcome) if not name.startswith("_")}
        return SimpleNamespace(**columns | {"cpu_seconds": next(played)})

    monkeypatch.setattr("gmlake.replay.engine._play", play)
    assert replay(loop_trace, "gmlake", settings).result.cpu_seconds == min(seconds)
    assert len(seconds) - len(list(played)) == turns == len(seconds)


def test_replays_are_deterministic(loop_trace: Trace) -> None:
    def once(name: str) -> dict[str, object]:
        result = replay(loop_trace, name, Settings(check=True, smallest_capacity=True)).result
        return dataclasses.replace(result, cpu_seconds=0).to_json()

    for name in ("caching", "expandable"):
        assert once(name) == once(name)


@pytest.mark.parametrize(
    ("iterations", "warm"),
    [(0, []), (1, [1]), (2, [2]), (10, [6, 7, 8, 9, 10]), (11, [10, 11]), (14, [10, 11, 12, 13, 14])],
)
def test_which_iterations_are_warm(iterations: int, warm: list[int]) -> None:
    assert list(range(iterations + 1))[warm_rows(iterations)] == warm
