"""Streams, private pools and captures, for every rival that reuses memory."""

from __future__ import annotations

import pytest

from gmlake.errors import InvalidArgument, OutOfMemory

from .bench import MIB, Bench

CACHING = ("caching", "expandable", "paper", "bfc")
POOL = (0, 1)
SIZE = 30 * MIB


@pytest.fixture(params=CACHING)
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_a_block_in_use_elsewhere_waits_for_that_stream(bench: Bench) -> None:
    address = bench.take(SIZE)
    bench.allocator.record_stream(address, 3)
    bench.driver.hold(3)
    bench.give(address)
    assert bench.stat("active") == 1
    assert bench.stat("allocation") == 0
    assert any(b.state == "active_pending_free" for b in bench.segment_of(address).blocks)
    assert bench.take(SIZE) != address
    bench.driver.finish(3)
    assert bench.take(SIZE) == address


def test_a_block_waits_for_all_its_streams(bench: Bench) -> None:
    address = bench.take(SIZE)
    for stream in (3, 4):
        bench.allocator.record_stream(address, stream)
        bench.driver.hold(stream)
    bench.give(address)
    bench.driver.finish(3)
    assert bench.take(SIZE) != address
    bench.driver.finish(4)
    assert bench.take(SIZE) == address


def test_uses_on_its_own_stream_need_no_event(bench: Bench) -> None:
    address = bench.take(SIZE, stream=2)
    bench.allocator.record_stream(address, 2)
    bench.driver.hold(2)
    before = bench.calls("query")
    bench.give(address)
    assert bench.take(SIZE, stream=2) == address
    assert bench.calls("query") == before


def test_events_are_used_again_and_go_with_trim(bench: Bench) -> None:
    for _ in range(5):
        address = bench.take(SIZE)
        bench.allocator.record_stream(address, 3)
        bench.give(address)
    assert bench.calls("create_event") == 1
    bench.allocator.trim()
    assert bench.driver.events == 0


def test_memory_short_waits_for_other_streams() -> None:
    for spec in CACHING:
        bench = Bench(spec, capacity=64 * MIB)
        address = bench.take(40 * MIB)
        bench.allocator.record_stream(address, 3)
        bench.driver.hold(3)
        bench.give(address)
        bench.take(40 * MIB)
        assert bench.calls("synchronize") >= 1


def test_a_private_pool_keeps_its_memory_apart(bench: Bench) -> None:
    outside = bench.take(SIZE)
    bench.give(outside)
    bench.allocator.begin_pool(POOL)
    inside = bench.take(SIZE)
    assert inside != outside
    assert bench.segment_of(inside).pool == POOL
    bench.give(inside)
    assert bench.take(SIZE) == inside
    bench.allocator.end_pool(POOL)
    assert bench.take(SIZE) == outside
    bench.give(inside, outside)


def test_only_the_filters_streams_come_from_the_pool(bench: Bench) -> None:
    bench.allocator.begin_pool(POOL, {5})
    assert bench.segment_of(bench.take(SIZE, stream=5)).pool == POOL
    assert bench.segment_of(bench.take(SIZE, stream=6)).pool == (0, 0)
    bench.allocator.begin_pool((0, 2), {5})
    assert bench.segment_of(bench.take(SIZE, stream=5)).pool == (0, 2)


def test_a_pool_returns_after_its_last_release(bench: Bench) -> None:
    for _ in range(2):
        bench.allocator.begin_pool(POOL)
        bench.give(bench.take(SIZE))
        bench.allocator.end_pool(POOL)
    bench.allocator.release_pool(POOL)
    bench.allocator.trim()
    assert bench.driver.physical_bytes > 0
    bench.allocator.release_pool(POOL)
    bench.allocator.trim()
    assert bench.driver.physical_bytes == 0
    with pytest.raises(InvalidArgument, match=r"\(0, 1\)"):
        bench.allocator.release_pool(POOL)


def test_mistakes_with_pools_change_nothing(bench: Bench) -> None:
    allocator = bench.allocator
    with pytest.raises(InvalidArgument, match=r"\(0, 0\)"):
        allocator.begin_pool((0, 0))
    with pytest.raises(InvalidArgument, match="not begun"):
        allocator.end_pool(POOL)
    allocator.begin_pool(POOL)
    with pytest.raises(InvalidArgument, match="begun already"):
        allocator.begin_pool(POOL)
    with pytest.raises(InvalidArgument, match="end it"):
        allocator.release_pool(POOL)
    allocator.end_pool(POOL)
    allocator.release_pool(POOL)


def test_a_capture_asks_no_event_and_gives_nothing_back(bench: Bench) -> None:
    cached = bench.take(SIZE)
    bench.give(cached)
    bench.allocator.begin_pool((1, 0), {9})
    bench.driver.set_capturing(9, True)
    address = bench.take(SIZE, stream=9)
    bench.allocator.record_stream(address, 3)
    reserved = bench.reserved
    before = bench.driver.counts()
    bench.give(address)
    bench.allocator.trim()
    after = bench.driver.counts()
    assert {kind for kind in after if after[kind][0] != before[kind][0]} == set()
    assert bench.reserved == reserved
    assert bench.take(SIZE, stream=9) != address
    bench.driver.set_capturing(9, False)
    bench.allocator.end_pool((1, 0))
    bench.take(SIZE, stream=1)
    assert bench.calls("record") == before["record"][0] + 1


def test_running_out_during_a_capture_does_not_wait() -> None:
    for spec in CACHING:
        bench = Bench(spec, capacity=100 * MIB)
        bench.give(bench.take(60 * MIB))
        bench.allocator.begin_pool((1, 0))
        bench.driver.set_capturing(0, True)
        with pytest.raises(OutOfMemory):
            bench.take(60 * MIB)
        assert bench.calls("free") + bench.calls("unmap") == 0
        bench.driver.set_capturing(0, False)
        bench.take(60 * MIB)
