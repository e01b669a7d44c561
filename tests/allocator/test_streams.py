"""Streams: memory goes from one to another only behind a fence, and not at all while a recorded stream uses it."""

from __future__ import annotations

import pytest

from .memory import KIB, MIB, Lake, Mark, overlap

SIZES = [4 * KIB, 16 * MIB]
MANY = 12  # more than have a lane of their own


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stream", [0, 5])
def test_a_stream_reuses_its_own_memory_at_once(size: int, stream: int) -> None:
    lake = Lake()
    lake.driver.hold(stream)
    lake.give(lake.take(size, stream))
    before = lake.driver.counts()
    lake.give(lake.take(size, stream))
    assert lake.driver.counts() == before


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("streams", [(0, 1), (0, 1, 2), (3, 3)])
def test_recorded_streams_keep_memory_from_reuse_until_they_have_passed(size: int, streams: tuple[int, ...]) -> None:
    lake = Lake()
    owner, *others = streams
    block = lake.take(size, owner)
    memory = lake.physical(block, size)
    for other in {*others} - {owner}:
        lake.driver.hold(other)
        lake.allocator.record_stream(block, other)
    lake.give(block)
    for other in {*others} - {owner}:
        again = lake.take(size, owner)
        assert not overlap(lake.physical(again, size), memory)
        assert lake.stat("active_bytes") > lake.stat("allocated_bytes")
        lake.driver.finish(other)
    again = lake.take(size, owner)
    assert overlap(lake.physical(again, size), memory)


def test_a_block_that_a_stream_still_uses_is_shown_as_pending() -> None:
    lake = Lake()
    blocks = [lake.take(size) for size in SIZES]
    lake.driver.hold(1)
    for block in blocks:
        lake.allocator.record_stream(block, 1)
    lake.give(*blocks)
    lake.take(512)  # looks whether the stream has passed
    states = {block.address: block.state for segment in lake.allocator.segments() for block in segment.blocks}
    assert [states[block] for block in blocks] == ["active_pending_free"] * 2
    assert (lake.stat("active"), lake.stat("allocation")) == (3, 1)


def test_waiting_for_a_recorded_stream_comes_before_running_out() -> None:
    lake = Lake(capacity=64 * MIB)
    block = lake.take(64 * MIB)
    lake.driver.hold(1)
    lake.allocator.record_stream(block, 1)
    used = Mark(lake.driver, 1)
    lake.give(block)
    lake.take(64 * MIB)
    assert used.reached


@pytest.mark.parametrize("scattered", [False, True])
def test_another_stream_waits_for_the_memory_it_takes(scattered: bool) -> None:
    lake = Lake(capacity=128 * MIB)
    blocks = [lake.take(16 * MIB) for _ in range(8)]
    lake.driver.hold(0)
    lake.give(*(blocks[::2] if scattered else blocks[:4]))
    lake.take(64 * MIB, 1)
    behind = Mark(lake.driver, 1)
    assert lake.own("fences") > 0
    assert not behind.reached
    lake.driver.finish(0)
    assert behind.reached


def test_memory_whose_work_has_finished_needs_no_fence() -> None:
    lake = Lake(capacity=64 * MIB)
    keep = lake.take(32 * MIB)
    lake.give(lake.take(32 * MIB))
    lake.allocator.trim()
    lake.give(lake.take(32 * MIB, 1))
    assert lake.own("fences") == 0
    lake.give(keep)


def test_no_address_is_unmapped_under_work() -> None:
    lake = Lake(capacity=128 * MIB)
    blocks = [lake.take(16 * MIB) for _ in range(8)]
    lake.driver.hold(0)
    lake.give(*blocks[::2])
    large = lake.take(64 * MIB)
    assert all(lake.driver.accessible(block, 16 * MIB) for block in blocks[::2])
    lake.give(large)
    for size in (48 * MIB, 56 * MIB):
        lake.give(lake.take(size))
    assert all(lake.driver.accessible(block, 16 * MIB) for block in blocks[::2])


@pytest.mark.parametrize("size", SIZES)
def test_trim_unmaps_nothing_when_it_cannot_wait(size: int) -> None:
    """The driver refuses to synchronize: what a held stream may use must stay."""
    lake = Lake()
    block = lake.take(size)
    lake.allocator.begin_pool((1, 0), {1})
    private = lake.take(size, 1)
    lake.allocator.end_pool((1, 0))
    lake.allocator.release_pool((1, 0))
    for stream in (0, 1):
        lake.driver.hold(stream)
    lake.give(block, private)
    lake.driver.fail("synchronize", 1, times=1000)
    lake.allocator.trim()
    lake.allocator.check()
    assert lake.driver.accessible(block, size)
    assert lake.driver.accessible(private, size)
    lake.driver.clear_faults()
    lake.allocator.trim()
    lake.assert_empty()


def test_streams_beyond_the_lanes_wait_for_each_other() -> None:
    """What one stream of the crowd has waited for says nothing about the others."""
    lake = Lake(capacity=64 * MIB)
    for stream in range(MANY):
        lake.give(lake.take(KIB, stream))
    block = lake.take(32 * MIB, MANY - 1)
    lake.driver.hold(MANY - 1)
    lake.give(block)
    for stream in (MANY - 2, MANY - 3):
        lake.give(lake.take(32 * MIB, stream))
        behind = Mark(lake.driver, stream)
        assert not behind.reached, f"stream {stream} does not wait"
        lake.take(2 * MIB, 0)  # so that the next one cannot simply grow
    lake.driver.finish(MANY - 1)


@pytest.mark.parametrize("size", SIZES)
def test_recording_a_stream_of_the_crowd_counts_for_each_of_them(size: int) -> None:
    lake = Lake()
    for stream in range(MANY):
        lake.give(lake.take(KIB, stream))
    block = lake.take(size, MANY - 1)
    memory = lake.physical(block, size)
    lake.driver.hold(MANY - 2)
    lake.allocator.record_stream(block, MANY - 2)
    lake.give(block)
    assert not overlap(lake.physical(lake.take(size, MANY - 1), size), memory)
