"""Every rule of a trace, broken one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gmlake import _core
from gmlake.replay import sweep
from gmlake.trace import CallSites, Frame, Trace, TraceError, validate
from gmlake.trace.trace import MAX_OPEN_POOLS, MAX_POOLS, MAX_SIZE

MakeTrace = Callable[..., Trace]
GOOD = [(0, 0, 512, 0), (0, 1, 100, 0), (3, 1, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0)]


def test_a_good_trace_passes(make_trace: MakeTrace) -> None:
    validate(make_trace(GOOD))
    validate(make_trace([]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 7, 0, 0)], "event 0 frees id 7, which was never allocated before it"),
        ([(1, 0, 0, 0), (0, 0, 8, 0)], "event 0 frees id 0, which was never allocated before it"),
        ([(0, 0, 8, 0), (1, 0, 0, 0), (1, 0, 0, 0)], "event 2 frees id 0, which event 1 had freed"),
        ([(0, 0, 8, 0), (1, 0, 0, 0), (3, 0, 0, 0)], "event 2 records a stream for id 0, which event 1 had"),
        ([(3, 0, 0, 0)], "event 0 records a stream for id 0"),
        ([(0, 0, 8, 0), (0, 0, 8, 0)], "event 1 allocates id 0, expected 1"),
        ([(0, 0, 0, 0)], "event 0 allocates 0 bytes"),
        ([(0, 0, -5, 0)], "event 0 allocates -5 bytes"),
        ([(0, 0, MAX_SIZE + 1, 0)], "expected 1 to"),
        ([(0, 0, 8, 0), (1, 0, 8, 0)], "event 1 has size 8 but allocates nothing"),
        ([(0, 0, 8, 3)], "event 0 is on stream 3, expected below 1"),
        ([(9, 0, 0, 0)], "event 0 is of kind 9, expected 0 to 7"),
        ([(4, 0, 0, 0)], "event 0 names pool 0"),
        ([(2, 5, 0, 0)], "event 0 starts iteration 5, expected 0"),
        ([(2, 0, 0, 0)], "1 iteration marks are said to be from 'none'"),
    ],
)
def test_what_contradicts_itself_is_named(
    make_trace: MakeTrace, rows: list[tuple[int, int, int, int]], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        validate(make_trace(rows))


def test_every_size_that_is_valid_can_be_replayed(make_trace: MakeTrace) -> None:
    largest = make_trace([(0, 0, MAX_SIZE, 0)])
    validate(largest)
    allocators = [row.name for row in _core.catalogue()]
    assert [run.result.allocator for run in sweep([largest], allocators)] == allocators


def test_no_device_has_more_than_may_be_live_at_once(make_trace: MakeTrace) -> None:
    rows = [(0, 0, MAX_SIZE - 1, 0), (0, 1, 1, 0), (1, 0, 0, 0), (0, 2, MAX_SIZE - 1, 0)]
    validate(make_trace(rows))
    with pytest.raises(TraceError, match=f"has {MAX_SIZE + 1} bytes live at event 4, expected at most {MAX_SIZE}"):
        validate(make_trace([*rows, (0, 3, 1, 0)]))
    endless = make_trace([(0, number, MAX_SIZE, 0) for number in range(1 << 20)])  # 2**64 in all
    with pytest.raises(TraceError, match="live at event 1,"):
        validate(endless)


def test_devices_and_streams_are_of_this_world(make_trace: MakeTrace) -> None:
    for device in (-1, 1 << 40):
        with pytest.raises(TraceError, match=f"is of device {device}, expected 0 to 1023"):
            validate(make_trace(GOOD, device=device))
    validate(make_trace(GOOD, streams=(-(2**63), 2**63 - 1)))
    with pytest.raises(TraceError, match="has a stream whose handle is not a number of 64 bits"):
        validate(make_trace(GOOD, streams=(0, 2**63)))


def test_pools_are_not_without_number(make_trace: MakeTrace) -> None:
    with pytest.raises(TraceError, match=f"event {MAX_OPEN_POOLS} opens a pool inside {MAX_OPEN_POOLS} others"):
        validate(make_trace([(4, 0, 0, 0)] * (MAX_OPEN_POOLS + 1), pools=((1, 0),)))
    with pytest.raises(TraceError, match=f"has {MAX_POOLS + 1} private pools"):
        validate(make_trace(GOOD, pools=tuple((number, 0) for number in range(1, MAX_POOLS + 2))))


def test_pools_end_only_when_open(make_trace: MakeTrace) -> None:
    pools = ((1, 0), (2, 0))
    validate(make_trace([(4, 0, 0, 0), (4, 1, 0, 0), (5, 0, 0, 0), (5, 1, 0, 0), (6, 0, 0, 0)], pools=pools))
    with pytest.raises(TraceError, match="event 1 ends pool 1, which is not open"):
        validate(make_trace([(4, 0, 0, 0), (5, 1, 0, 0)], pools=pools))


def test_initial_events_only_allocate(make_trace: MakeTrace) -> None:
    validate(make_trace(GOOD, initial=2))
    with pytest.raises(TraceError, match="event 2 is among the initial ones"):
        validate(make_trace(GOOD, initial=3))
    with pytest.raises(TraceError, match="99 initial events"):
        validate(make_trace(GOOD, initial=99))


def test_columns_have_their_types_and_lengths(make_trace: MakeTrace) -> None:
    good = make_trace(GOOD)
    with pytest.raises(TraceError, match=r"column id is int64\[5\], expected uint32\[5\]"):
        validate(replace(good, id=good.id.astype(np.int64)))
    with pytest.raises(TraceError, match=r"column size is int64\[4\]"):
        validate(replace(good, size=good.size[1:]))
    with pytest.raises(TraceError, match="column time_us has 2 rows, expected 5"):
        validate(replace(good, time_us=np.zeros(2, np.int64)))


def test_call_sites_are_in_their_table(make_trace: MakeTrace) -> None:
    site = np.array([0, 1, -1, -1, -1], dtype=np.int32)
    sites = CallSites((Frame("a.py", 1, "f"),), ((0,), (0, 0)))
    trace = make_trace(GOOD, site=site, call_sites=sites)
    validate(trace)
    assert [frame.name for frame in sites.stack(1)] == ["f", "f"]
    with pytest.raises(TraceError, match="event 1 has call site 1, expected -1 to 0"):
        validate(replace(trace, call_sites=CallSites(sites.frames, ((0,),))))


def test_live_bytes(make_trace: MakeTrace) -> None:
    assert make_trace(GOOD).live_bytes().tolist() == [512, 612, 612, 100, 0]
