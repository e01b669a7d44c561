"""Streams: memory goes from one to another only behind a fence, and not at all while a recorded stream uses it.

A fence is behind everything that any stream was told before the memory was released: programs may use a block on other
streams without a word, as long as its own stream waits for them before it uses the memory again.
"""

from __future__ import annotations

import pytest

from gmlake._core import Status
from gmlake.errors import DriverError

from .memory import GIB, KIB, MIB, Lake, Mark, overlap

SIZES = [4 * KIB, 16 * MIB]
MANY = 40  # more than have a lane of their own


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


@pytest.mark.parametrize("size", SIZES)
def test_a_slow_stream_holds_up_no_memory_but_its_own(size: int) -> None:
    lake = Lake()
    lake.driver.hold(1)
    slow = lake.take(size)
    lake.allocator.record_stream(slow, 1)
    lake.give(slow)
    for _ in range(20):
        block = lake.take(size)
        lake.allocator.record_stream(block, 2)  # which finishes at once
        lake.give(block)
    lake.take(512)
    assert lake.stat("active_bytes") <= 3 * size + 512
    lake.allocator.check()


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


def test_another_stream_waits_for_uses_that_nobody_announced() -> None:
    """As with FSDP2: gradients of the reduce-scatter stream, which the optimizer reads on the default stream."""
    default, reduce_scatter, prefetch = range(3)
    lake = Lake(capacity=64 * MIB)
    lake.give(lake.take(KIB, default))
    gradient = lake.take(32 * MIB, reduce_scatter)
    memory = lake.physical(gradient, 32 * MIB)
    lake.driver.hold(default)
    optimizer = Mark(lake.driver, default)
    lake.give(gradient)
    batch = lake.take(32 * MIB, prefetch)
    assert overlap(lake.physical(batch, 32 * MIB), memory)
    copy = Mark(lake.driver, prefetch)
    assert not optimizer.reached
    assert not copy.reached
    lake.driver.finish(default)
    assert copy.reached


def test_no_address_is_unmapped_under_uses_that_nobody_announced() -> None:
    lake = Lake(capacity=130 * MIB)
    lake.give(lake.take(KIB, 0))
    gradients = [lake.take(16 * MIB, 1) for _ in range(8)]
    lake.driver.hold(0)
    optimizer = Mark(lake.driver, 0)
    lake.give(*gradients[::2])
    lake.take(40 * MIB, 0)  # of the default stream itself: nothing to wait for, but old addresses must stay
    lake.take(18 * MIB, 0)
    assert lake.own("stitches") > 0
    assert not optimizer.reached
    assert all(lake.driver.accessible(gradient, 16 * MIB) for gradient in gradients[::2])


def test_trim_waits_for_streams_that_nobody_has_heard_of() -> None:
    """A graph is replayed on a stream that never asked for memory, and its pool goes."""
    lake = Lake()
    lake.allocator.begin_pool((1, 0), {1})
    lake.give(lake.take(16 * MIB, 1))
    lake.allocator.end_pool((1, 0))
    lake.driver.hold(7)
    replay = Mark(lake.driver, 7)
    lake.allocator.release_pool((1, 0))
    lake.allocator.trim()
    assert replay.reached
    lake.assert_empty()


@pytest.mark.parametrize("known", [1, MANY])
def test_a_capture_finds_memory_where_nothing_may_be_waited_for(known: int) -> None:
    lake = Lake(capacity=80 * GIB)
    for stream in range(known):
        lake.give(lake.take(KIB, stream))
    lake.allocator.begin_pool((1, 0), {known})
    lake.driver.set_capturing(known, True)
    for _ in range(3):
        lake.give(lake.take(64 * MIB, known))


def test_memory_that_a_capturing_stream_had_is_left_alone() -> None:
    lake = Lake(capacity=80 * GIB)
    block = lake.take(64 * MIB, 1)
    lake.give(block)
    assert lake.take(64 * MIB, 2) == block
    lake.give(block)
    lake.allocator.begin_pool((1, 0), {2})
    lake.driver.set_capturing(2, True)
    assert lake.take(64 * MIB, 1) != block


def test_a_stream_that_was_destroyed_is_waited_for_once_and_forgotten() -> None:
    lake = Lake(capacity=64 * MIB)
    lake.driver.hold(1)
    block = lake.take(32 * MIB, 1)
    used = Mark(lake.driver, 1)
    lake.give(block)
    lake.driver.fail("record", 1, Status.invalid_value)  # as of a handle that nobody knows
    lake.give(lake.take(64 * MIB, 0))
    assert used.reached
    assert lake.calls("synchronize") == 1
    lake.give(lake.take(32 * MIB, 2))  # lanes 0 and 2 are fenced as ever
    lake.give(lake.take(64 * MIB, 0))
    assert lake.calls("synchronize") == 1
    lake.driver.hold(1)
    lake.give(lake.take(32 * MIB, 1))  # another stream with its handle
    lake.take(64 * MIB, 0)
    behind = Mark(lake.driver, 0)
    assert not behind.reached


def test_a_new_stream_with_the_handle_of_a_destroyed_one_is_waited_for_though_its_blocks_are_small() -> None:
    lake = Lake(capacity=64 * MIB)
    outlive = [lake.take(MIB - 50 * KIB, 1) for _ in range(8)]
    lake.give(lake.take(40 * MIB, 1), lake.take(KIB, 2))
    lake.driver.fail("record", 1, Status.invalid_value)
    lake.give(lake.take(40 * MIB, 2))
    assert lake.calls("synchronize") == 1
    blocks = [lake.take(50 * KIB, 1) for _ in range(8)]  # in pages that the old stream left
    memory = [piece for block in blocks for piece in lake.physical(block, 50 * KIB)]
    lake.driver.hold(1)
    lake.give(*blocks, *outlive)
    taken = [piece for _ in range(8) for piece in lake.physical(lake.take(MIB, 2), MIB)]
    assert overlap(taken, memory)
    assert not Mark(lake.driver, 2).reached


def test_a_device_that_was_lost_is_not_out_of_memory() -> None:
    lake = Lake(capacity=80 * GIB)
    lake.driver.lose()
    with pytest.raises(DriverError, match="an earlier error has made it unusable"):
        lake.allocator.allocate(64 * MIB, 0)
    assert lake.allocator.statistics()["num_ooms"] == 0


@pytest.mark.parametrize("handle", [3, 9])  # one that was heard of before it was destroyed, and one that never was
def test_a_new_stream_is_waited_for_whatever_its_handle(handle: int) -> None:
    lake = Lake(capacity=48 * MIB)
    for stream in (1, 2, 3):
        lake.give(lake.take(KIB, stream))
    small = lake.take(8 * MIB, 1)
    lake.take(2 * MIB, 1)
    large = lake.take(30 * MIB, 1)
    lake.give(small)
    lake.driver.fail("record", 2, Status.invalid_value)  # of the third stream, whose handle nobody knows any more
    lake.give(lake.take(8 * MIB, 2))
    assert lake.calls("synchronize") == 1
    small = lake.take(8 * MIB, 1)
    lake.driver.hold(handle)
    work = Mark(lake.driver, handle)  # reads the large block, as its stream knows
    memory = lake.physical(large, 30 * MIB)
    lake.give(large, small)
    lake.take(8 * MIB, 2)  # behind what all streams were told, but for that one
    lake.give(lake.take(KIB, handle))  # now it is heard of
    assert overlap(lake.physical(lake.take(30 * MIB, 2), 30 * MIB), memory)
    assert not work.reached
    assert not Mark(lake.driver, 2).reached
