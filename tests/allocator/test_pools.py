"""Private pools, as CUDA graphs use them: apart from the rest, unmoved, and gone when nobody needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gmlake._core import SegmentInfo, SimulatedDriver, make_allocator
from gmlake.errors import InvalidArgument, OutOfMemory

from .memory import GIB, KIB, MIB, Lake, overlap

GRAPH = (1, 0)
ORDER_CALLS = ("create_event", "record", "query", "wait", "synchronize")


@contextmanager
def pool(lake: Lake, streams: set[int] | None = None, name: tuple[int, int] = GRAPH) -> Iterator[None]:
    """Allocations inside come from the pool."""
    lake.allocator.begin_pool(name, streams)
    yield
    lake.allocator.end_pool(name)


def segments(lake: Lake, name: tuple[int, int] = GRAPH) -> list[SegmentInfo]:
    return [segment for segment in lake.allocator.segments() if segment.pool == name]


@pytest.mark.parametrize("size", [4 * KIB, 16 * MIB])
def test_neither_side_uses_the_memory_of_the_other(size: int) -> None:
    lake = Lake(capacity=64 * GIB)
    outside = lake.take(size)
    memory = lake.physical(outside, size)
    lake.give(outside)
    with pool(lake):
        inside = lake.take(size)
    assert not overlap(lake.physical(inside, size), memory)
    memory = lake.physical(inside, size)
    lake.give(inside)
    assert not overlap(lake.physical(lake.take(size), size), memory)
    with pool(lake):
        assert overlap(lake.physical(lake.take(size), size), memory)


def test_the_filter_chooses_the_streams() -> None:
    lake = Lake()
    with pool(lake, {1, 2}):
        blocks = {stream: lake.take(4 * MIB, stream) for stream in range(4)}
    inside = [block.address for segment in segments(lake) for block in segment.blocks if block.state != "inactive"]
    assert set(inside) == {blocks[1], blocks[2]}


def test_scopes_nest() -> None:
    lake = Lake()
    with pool(lake):
        with pool(lake, {0}, (2, 0)):
            inner = lake.take(4 * MIB)
        outer = lake.take(4 * MIB)
    assert segments(lake, (2, 0))[0].blocks[0].address == inner
    assert segments(lake)[0].blocks[0].address == outer


def test_nothing_in_a_pool_moves() -> None:
    lake = Lake(capacity=512 * MIB)
    with pool(lake):
        blocks = [lake.take(16 * MIB) for _ in range(8)]
        memory = {block: lake.physical(block, 16 * MIB) for block in blocks}
        lake.give(*blocks[::2])
        lake.take(64 * MIB)  # would be stitched elsewhere
    lake.give(lake.take(64 * MIB), lake.take(2 * MIB))
    assert {block: lake.physical(block, 16 * MIB) for block in blocks} == memory
    assert lake.own("stitches") == 0


def test_a_pool_keeps_its_memory_until_its_last_use_is_released() -> None:
    lake = Lake()
    for _ in range(2):
        with pool(lake):
            block = lake.take(16 * MIB)
        lake.give(block)
    for reserved in (16 * MIB, 16 * MIB):
        lake.allocator.trim()
        assert lake.driver.physical_bytes == reserved
        lake.allocator.release_pool(GRAPH)
    lake.allocator.trim()
    lake.assert_empty()
    assert lake.driver.ranges == 1


@pytest.mark.parametrize("allocator", ["gmlake", "caching"])
def test_statistics_tell_what_each_pool_reserves(allocator: str) -> None:
    driver = SimulatedDriver()
    shared = make_allocator(allocator, driver)
    outside = shared.allocate(32 * MIB)
    assert shared.statistics()["reserved_bytes_by_private_pools"] == {}
    shared.begin_pool(GRAPH)
    blocks = [shared.allocate(KIB), shared.allocate(32 * MIB)]
    shared.end_pool(GRAPH)
    pools = shared.statistics()["reserved_bytes_by_private_pools"]
    assert set(pools) == {GRAPH}
    for name, size in (("small_pool", 2 * MIB), ("large_pool", 32 * MIB), ("all", 34 * MIB)):
        assert pools[GRAPH][name] == {"current": size, "peak": size, "allocated": size, "freed": 0}
    for block in [outside, *blocks]:
        shared.release(block)
    shared.release_pool(GRAPH)
    shared.trim()
    assert driver.physical_bytes == 0
    # As with PyTorch, what it once had is told until somebody resets it.
    gone = shared.statistics()["reserved_bytes_by_private_pools"][GRAPH]["all"]
    assert gone == {"current": 0, "peak": 34 * MIB, "allocated": 34 * MIB, "freed": 34 * MIB}
    shared.reset_peaks()
    shared.reset_accumulated()
    gone = shared.statistics()["reserved_bytes_by_private_pools"][GRAPH]["all"]
    assert gone == {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


def test_blocks_outlive_their_pool() -> None:
    lake = Lake()
    with pool(lake):
        small, large = lake.take(KIB), lake.take(16 * MIB)
    lake.allocator.release_pool(GRAPH)
    lake.allocator.trim()
    assert lake.driver.accessible(small, KIB)
    assert lake.driver.accessible(large, 16 * MIB)
    lake.allocator.record_stream(large, 3)
    lake.give(small, large)
    lake.allocator.trim()
    lake.assert_empty()


def test_a_pool_may_be_begun_again_while_blocks_of_it_are_out() -> None:
    lake = Lake()
    with pool(lake):
        block = lake.take(16 * MIB)
    lake.allocator.release_pool(GRAPH)
    with pool(lake):
        lake.give(block)
        assert lake.take(16 * MIB) == block


def test_memory_of_unused_pools_and_idle_memory_serve_whoever_runs_short() -> None:
    lake = Lake(capacity=64 * MIB)
    lake.give(lake.take(64 * MIB))
    with pool(lake):
        lake.give(lake.take(64 * MIB))
    lake.allocator.release_pool(GRAPH)
    lake.take(64 * MIB)


def test_an_unused_pool_whose_last_block_a_stream_still_uses_is_waited_for() -> None:
    lake = Lake(capacity=64 * MIB)
    with pool(lake):
        block = lake.take(40 * MIB, 1)
    lake.allocator.release_pool(GRAPH)
    lake.allocator.record_stream(block, 2)
    lake.driver.hold(2)
    lake.give(block)
    lake.take(40 * MIB)


def test_a_limit_counts_for_pools_too() -> None:
    lake = Lake(capacity=64 * GIB, limit=64 * MIB)
    with pool(lake):
        lake.take(48 * MIB)
        with pytest.raises(OutOfMemory, match=r"limited to 64\.00 MiB"):
            lake.allocator.allocate(32 * MIB)


@pytest.mark.parametrize("wrong", [(0, 1), (7, 7)])
def test_a_pool_that_was_not_begun(wrong: tuple[int, int]) -> None:
    lake = Lake()
    with pool(lake):
        for call in (lake.allocator.end_pool, lake.allocator.release_pool):
            with pytest.raises(InvalidArgument, match=rf"\({wrong[0]}, {wrong[1]}\)"):
                call(wrong)


def test_a_pool_is_not_begun_twice() -> None:
    lake = Lake()
    with pool(lake), pytest.raises(InvalidArgument, match=r"was begun already; end it first"):
        lake.allocator.begin_pool(GRAPH)
    assert lake.allocator.pool_uses(GRAPH) == 1


def test_the_ordinary_pool_is_not_private() -> None:
    lake = Lake()
    with pytest.raises(InvalidArgument, match=r"\(0, 0\)"):
        lake.allocator.begin_pool((0, 0))


def test_a_use_is_released_once() -> None:
    lake = Lake()
    with pool(lake):
        pass
    with pytest.raises(InvalidArgument, match=r"\(1, 0\)"):
        lake.allocator.end_pool(GRAPH)
    lake.allocator.release_pool(GRAPH)
    with pytest.raises(InvalidArgument, match=r"\(1, 0\)"):
        lake.allocator.release_pool(GRAPH)


class TestWhileAStreamCaptures:
    """Nothing may be asked of or waited for on the device: it would end the capture, or become part of it."""

    def test_the_pool_serves_without_touching_the_order_of_streams(self) -> None:
        lake = Lake(capacity=64 * GIB)
        lake.driver.hold(2)
        with pool(lake, {1}):
            lake.driver.set_capturing(1, True)
            before = {kind: lake.calls(kind) for kind in ORDER_CALLS}
            blocks = [lake.take(size, 1) for size in (KIB, 16 * MIB, 4 * MIB, 40 * MIB)]
            for block in blocks:
                lake.allocator.record_stream(block, 2)
            lake.give(*blocks)
            for size in (KIB, 16 * MIB, 60 * MIB):
                lake.give(lake.take(size, 1))
            lake.allocator.trim()
            assert {kind: lake.calls(kind) for kind in ORDER_CALLS} == before
            lake.driver.set_capturing(1, False)
        lake.driver.finish(2)
        lake.allocator.release_pool(GRAPH)
        lake.allocator.trim()
        lake.assert_empty()

    def test_a_stream_that_was_never_seen_before(self) -> None:
        lake = Lake()
        used_elsewhere = lake.take(4 * MIB)
        lake.allocator.record_stream(used_elsewhere, 2)
        lake.give(used_elsewhere)
        lake.driver.set_capturing(9, True)
        with pool(lake, {9}):
            before = {kind: lake.calls(kind) for kind in ORDER_CALLS}
            lake.take(4 * MIB, 9)
            assert {kind: lake.calls(kind) for kind in ORDER_CALLS} == before

    def test_running_out_does_not_wait(self) -> None:
        lake = Lake(capacity=64 * MIB)
        lake.give(lake.take(40 * MIB))
        with pool(lake, {1}):
            lake.driver.set_capturing(1, True)
            before = {kind: lake.calls(kind) for kind in ORDER_CALLS}
            with pytest.raises(OutOfMemory):
                lake.allocator.allocate(40 * MIB, 1)
            assert {kind: lake.calls(kind) for kind in ORDER_CALLS} == before
            lake.allocator.check()
            lake.driver.set_capturing(1, False)
            lake.take(40 * MIB, 1)

    def test_others_neither_ask_nor_take_what_the_captured_stream_used(self) -> None:
        """Another thread goes on: it must not record on the captured stream, nor ask about old addresses."""
        lake = Lake(capacity=64 * GIB, limit=256 * MIB)
        blocks = [lake.take(16 * MIB) for _ in range(8)]
        lake.give(*blocks[::2])
        stitched = lake.take(64 * MIB)  # its old addresses wait to be unmapped
        captured = lake.take(48 * MIB, 1)
        memory = lake.physical(captured, 48 * MIB)
        lake.give(captured)
        with pool(lake, {1}):
            lake.driver.set_capturing(1, True)
            before = {kind: lake.calls(kind) for kind in ORDER_CALLS}
            other = lake.take(48 * MIB)
            assert not overlap(lake.physical(other, 48 * MIB), memory)
            assert {kind: lake.calls(kind) for kind in ORDER_CALLS} == before
            lake.driver.set_capturing(1, False)
        lake.give(stitched, other)
        assert overlap(lake.physical(lake.take(150 * MIB), 150 * MIB), memory)


def test_there_may_be_thousands_of_pools() -> None:
    lake = Lake(capacity=64 * GIB)
    names = [(1, number) for number in range(3000)]
    blocks = []
    for name in names:
        lake.allocator.begin_pool(name)
        blocks.append(lake.allocator.allocate(4 * MIB, 0))
        lake.allocator.end_pool(name)
    assert len(set(blocks)) == len(names)
    lake.allocator.check()
    for name, block in zip(names, blocks, strict=True):
        lake.allocator.release(block)
        lake.allocator.release_pool(name)
    lake.allocator.trim()
    lake.assert_empty()


def test_pools_that_are_over_make_room_for_new_ones() -> None:
    lake = Lake(capacity=80 * GIB)
    for number in range(400):  # every one of them was captured and dropped, and nothing was trimmed
        name = (number + 1, 0)
        lake.allocator.begin_pool(name)
        lake.give(lake.take(4 * MIB))
        lake.allocator.end_pool(name)
        lake.allocator.release_pool(name)
    assert lake.stat("reserved_bytes") <= 65 * 4 * MIB
    lake.allocator.begin_pool((1000, 0))
    lake.take(20 * GIB)
    lake.allocator.check()


def test_what_never_moves_is_made_of_few_chunks() -> None:
    lake = Lake(capacity=80 * GIB)
    lake.give(lake.take(176 * MIB))
    ordinary = lake.calls("create")
    lake.allocator.begin_pool((1, 0))
    lake.take(176 * MIB)
    assert lake.calls("create") - ordinary == 8 < ordinary
    assert lake.stat("reserved_bytes") == 2 * 176 * MIB
