"""Any trace, through every format and back: what a format can hold comes back as it was."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmlake.trace import CallSites, Frame, Kind, Trace, read_trace, validate, write_trace
from gmlake.trace.building import Rows, build

STREAMS = (0, 3, 140_234_567)
POOLS = ((1, 0), (0, 7))
SITES = CallSites((Frame("a.py", 3, "f"), Frame("b.py", 4, "g")), ((0,), (0, 1), (1,)))
SIZES = st.one_of(st.integers(1, 2000), st.sampled_from([1 << 20, 2 << 20, 1 << 34]))


@st.composite
def traces(draw: st.DrawFn, kinds: frozenset[Kind] = frozenset(Kind), initial: bool = True) -> Trace:
    """A program of 1 to 60 steps that allocates, frees and does whatever else `kinds` allows."""
    rows: list[tuple[int, int, int, int]] = []
    live: list[int] = []
    made = 0
    open_pool: int | None = None
    first = draw(st.integers(0, 5)) if initial else 0
    for step in range(draw(st.integers(0 if first else 1, 60)) + first):
        kind = Kind.ALLOCATE if step < first else draw(st.sampled_from(sorted(kinds)))
        if kind in (Kind.FREE, Kind.RECORD_STREAM) and live:
            which = draw(st.integers(0, len(live) - 1))
            rows.append((kind, live[which], 0, draw(st.sampled_from(STREAMS))))
            if kind == Kind.FREE:
                del live[which]
        elif kind == Kind.BEGIN_POOL and open_pool is None:
            open_pool = draw(st.integers(0, len(POOLS) - 1))
            rows.append((kind, open_pool, 0, 0))
        elif kind == Kind.END_POOL and open_pool is not None:
            rows.append((kind, open_pool, 0, 0))
            open_pool = None
        elif kind in (Kind.ITERATION, Kind.TRIM):
            rows.append((kind, 0, 0, 0))
        elif kind == Kind.RELEASE_POOL:
            rows.append((kind, draw(st.integers(0, len(POOLS) - 1)), 0, 0))
        else:
            rows.append((Kind.ALLOCATE, made, draw(SIZES), draw(st.sampled_from(STREAMS))))
            live.append(made)
            made += 1
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    kind_column = table[:, 0].astype(np.uint8)
    site = np.where(kind_column == Kind.ALLOCATE, np.arange(len(rows)) % 4 - 1, -1).astype(np.int32)
    steps = draw(st.lists(st.integers(1, 10**7), min_size=len(rows), max_size=len(rows)))
    return build(
        Rows(
            kind_column,
            table[:, 1].astype(np.uint64),
            table[:, 2],
            table[:, 3],
            site=site,
            time_us=np.cumsum(np.array([1_700_000_000_000_000, *steps], dtype=np.int64))[1:],
        ),
        name="t",
        source="test",
        pools=POOLS,
        initial=first,
        call_sites=draw(st.sampled_from([None, SITES])),
    )


def through(trace: Trace, name: str, to: str | None = None) -> tuple[Trace, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        lost = write_trace(trace, path, to)
        return read_trace(path, find_marks=False), lost


def assert_same_events(one: Trace, other: Trace) -> None:
    for column in ("kind", "id", "size"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)
    counts = (one.kind == Kind.ALLOCATE) | (one.kind == Kind.RECORD_STREAM)
    handles = [np.array(trace.streams)[trace.stream][counts].tolist() for trace in (one, other)]
    assert handles[0] == handles[1]


@given(trace=traces())
def test_our_format_keeps_everything(trace: Trace) -> None:
    back, lost = through(trace, "t.gmt")
    assert lost == []
    assert_same_events(trace, back)
    np.testing.assert_array_equal(trace.stream, back.stream)
    np.testing.assert_array_equal(trace.time_us, back.time_us)
    for field in ("streams", "pools", "marks_from", "initial", "call_sites", "device", "source", "name"):
        assert getattr(trace, field) == getattr(back, field), field
    if trace.site is not None:
        np.testing.assert_array_equal(trace.site, back.site)


@given(trace=traces())
def test_our_format_without_the_optional_columns(trace: Trace) -> None:
    bare = replace(trace, site=None, call_sites=None, time_us=None)
    back, _ = through(bare, "t.gmt")
    assert_same_events(bare, back)
    assert (back.site, back.call_sites, back.time_us) == (None, None, None)


def noted_in(trace: Trace) -> list[str]:
    there = {"call sites": trace.call_sites is not None, "times": trace.time_us is not None}
    return [name for name, is_there in there.items() if is_there]


@given(trace=traces())
def test_npz_keeps_the_events(trace: Trace) -> None:
    back, lost = through(trace, "t.npz")
    assert lost == noted_in(trace)
    for column in ("kind", "size", "stream"):
        np.testing.assert_array_equal(getattr(trace, column), getattr(back, column), column)
    of_pool = (trace.kind >= Kind.BEGIN_POOL) & (trace.kind <= Kind.RELEASE_POOL)
    np.testing.assert_array_equal(trace.id[~of_pool], back.id[~of_pool])
    if all(handle < 256 for handle in trace.streams):
        assert trace.streams == back.streams


IN_SNAPSHOTS = frozenset({Kind.ALLOCATE, Kind.FREE, Kind.ITERATION})


@pytest.mark.parametrize("name", ["t.pickle", "t.json", "t.pickle.gz", "t.json.gz"])
@settings(max_examples=40)
@given(trace=traces(IN_SNAPSHOTS, initial=False))
def test_snapshots_keep_allocations_frees_iterations_sites_and_times(name: str, trace: Trace) -> None:
    if not np.isin(trace.kind, (Kind.ALLOCATE, Kind.FREE)).any():
        return
    back, lost = through(trace, name)
    assert lost == []
    assert_same_events(trace, back)
    assert trace.time_us is not None and back.time_us is not None
    events = trace.kind != Kind.ITERATION
    np.testing.assert_array_equal(trace.time_us[events], back.time_us[events])
    if trace.site is not None and trace.call_sites is not None:
        assert stacks(trace) == stacks(back)


def stacks(trace: Trace) -> list[tuple[Frame, ...]]:
    if trace.site is None or trace.call_sites is None:
        return [()] * trace.allocations
    sites = trace.site[trace.kind == Kind.ALLOCATE].tolist()
    return [trace.call_sites.stack(site) if site >= 0 else () for site in sites]


@given(trace=traces(frozenset({Kind.ALLOCATE, Kind.FREE})))
def test_snapshots_rebuild_what_was_live_at_the_beginning(trace: Trace) -> None:
    if len(trace) == trace.initial:
        return
    back, _ = through(trace, "t.pickle")
    assert back.initial == trace.initial
    # Rebuilt in address order, so the numbers of the initial allocations may change places.
    start, end = (slice(0, trace.initial), slice(trace.initial, None))
    before = [sorted(zip(t.size[start].tolist(), handle(t)[start], strict=True)) for t in (trace, back)]
    assert before[0] == before[1]
    np.testing.assert_array_equal(trace.kind[end], back.kind[end])
    np.testing.assert_array_equal(trace.live_bytes()[end], back.live_bytes()[end])


def handle(trace: Trace) -> list[int]:
    return [trace.streams[number] for number in trace.stream.tolist()]


@given(trace=traces(frozenset({Kind.ALLOCATE, Kind.FREE, Kind.BEGIN_POOL, Kind.END_POOL})))
def test_snapshots_keep_which_allocation_is_in_which_pool(trace: Trace) -> None:
    if not np.isin(trace.kind[trace.initial :], (Kind.ALLOCATE, Kind.FREE)).any():
        return
    back, _ = through(trace, "t.json")
    validate(back)
    assert sorted(pool_of_each(trace)) == sorted(pool_of_each(back))


def pool_of_each(trace: Trace) -> list[tuple[int, tuple[int, int]]]:
    pools: list[tuple[int, int]] = [(0, 0)]
    found = []
    for kind, number, size in zip(trace.kind.tolist(), trace.id.tolist(), trace.size.tolist(), strict=True):
        if kind == Kind.BEGIN_POOL:
            pools.append(trace.pools[number])
        elif kind == Kind.END_POOL:
            pools.remove(trace.pools[number])
        elif kind == Kind.ALLOCATE:
            found.append((size, pools[-1]))
    return found


@given(trace=traces())
def test_what_a_format_cannot_hold_is_said(trace: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lost = write_trace(trace, Path(folder) / "t.csv")
    kept = {Kind.ALLOCATE, Kind.FREE}
    missing = [kind for kind in Kind if kind not in kept and (trace.kind == kind).any()]
    events = [f"{(trace.kind == kind).sum()} {kind.name.lower()} events" for kind in missing]
    assert lost == events + noted_in(trace)
