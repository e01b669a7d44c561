"""Limits and trim: never more than allowed, and back what can go."""

from __future__ import annotations

import pytest

from gmlake._core import Status
from gmlake.errors import OutOfMemory

from .memory import GIB, KIB, MIB, Lake


def test_no_more_is_reserved_than_the_limit() -> None:
    lake = Lake(capacity=64 * GIB, limit=100 * MIB)
    blocks = [lake.take(20 * MIB) for _ in range(5)]
    for size in (KIB, 2 * MIB):
        with pytest.raises(OutOfMemory):
            lake.allocator.allocate(size)
    lake.give(*blocks)
    lake.take(100 * MIB)
    assert lake.stat("reserved_bytes", what="peak") == 100 * MIB


def test_a_limit_may_be_raised_and_lowered() -> None:
    lake = Lake(capacity=64 * GIB, limit=32 * MIB)
    block = lake.take(32 * MIB)
    lake.allocator.set_limit(64 * MIB)
    second = lake.take(32 * MIB)
    lake.allocator.set_limit(16 * MIB)
    assert lake.driver.accessible(block, 32 * MIB), "what is out stays out"
    with pytest.raises(OutOfMemory, match=r"limited to 16.00 MiB"):
        lake.allocator.allocate(2 * MIB)
    lake.give(block, second)
    lake.allocator.trim()
    lake.take(16 * MIB)


@pytest.mark.parametrize("limit", [64 * MIB, 64 * MIB + 1000])
def test_under_a_limit_that_was_lowered_the_cache_goes_before_a_request_fails(limit: int) -> None:
    lake = Lake(capacity=64 * GIB)
    cached, kept = [lake.take(GIB) for _ in range(8)], lake.take(20 * MIB)
    lake.give(*cached)
    lake.allocator.set_limit(limit)
    lake.take(KIB)
    assert lake.stat("reserved_bytes") <= limit
    assert lake.driver.accessible(kept, 20 * MIB)


def test_a_limit_of_nothing() -> None:
    lake = Lake(limit=0)
    for size in (1, 4 * MIB):
        with pytest.raises(OutOfMemory, match="limited to 0"):
            lake.allocator.allocate(size)
    lake.assert_empty()


def test_a_limit_beyond_the_device_is_none() -> None:
    lake = Lake(capacity=64 * MIB, limit=2**64 - 1)
    with pytest.raises(OutOfMemory) as caught:
        lake.allocator.allocate(80 * MIB)
    assert "limited" not in str(caught.value)


def test_memory_that_others_use_on_the_device_is_respected() -> None:
    lake = Lake(capacity=64 * MIB)
    _, theirs = lake.driver.create(32 * MIB)
    with pytest.raises(OutOfMemory, match=r"32\.00 MiB of 64\.00 MiB free"):
        lake.allocator.allocate(40 * MIB)
    lake.take(32 * MIB)
    lake.driver.release(theirs)
    lake.take(32 * MIB)


def test_what_others_take_or_give_back_meanwhile_is_noticed_before_memory_runs_out() -> None:
    # The device is not asked at every step how much it has free.
    lake = Lake(capacity=GIB)
    lake.take(64 * MIB)
    _, theirs = lake.driver.create(GIB - 128 * MIB)
    with pytest.raises(OutOfMemory, match=r"64\.00 MiB of 1\.00 GiB free"):
        lake.allocator.allocate(80 * MIB)
    retries = lake.count("num_alloc_retries")
    lake.take(64 * MIB)
    assert lake.count("num_alloc_retries") == retries, "after that the device's free memory is known again"
    lake.driver.release(theirs)
    lake.take(GIB - 128 * MIB)
    lake.allocator.check()


def test_trim_gives_back_all_that_is_free() -> None:
    lake = Lake()
    blocks = [lake.take(size, stream) for size in (KIB, MIB, 5 * MIB, 50 * MIB) for stream in range(3)]
    lake.give(*blocks)
    lake.allocator.trim()
    lake.assert_empty()
    assert lake.stat("reserved_bytes") == lake.stat("segment") == 0


def test_trim_leaves_what_is_in_use_and_little_beside_it() -> None:
    lake = Lake(capacity=64 * GIB)
    blocks = [lake.take(16 * MIB) for _ in range(16)]
    small = [lake.take(100 * KIB) for _ in range(100)]
    lake.give(*blocks[1::2], *small[1:])
    lake.allocator.trim()
    assert lake.stat("reserved_bytes") == 8 * 16 * MIB + 2 * MIB
    lake.allocator.check()
    for block in blocks[::2]:
        assert lake.driver.accessible(block, 16 * MIB)


def test_trim_waits_for_streams_and_drops_sblocks() -> None:
    lake = Lake(capacity=256 * MIB)
    for _ in range(4):
        blocks = [lake.take(8 * MIB) for _ in range(32)]
        lake.give(*blocks[::2])
        lake.give(lake.take(100 * MIB))
        lake.give(*blocks[1::2])
    assert lake.own("sblocks") > 0
    block = lake.take(8 * MIB)
    for stream in range(3):
        lake.driver.hold(stream)
        lake.allocator.record_stream(block, stream)
    lake.give(block)
    lake.allocator.trim()
    lake.assert_empty()
    assert lake.own("sblocks") == 0
    assert lake.driver.ranges == 1


def test_an_allocator_that_goes_gives_everything_back() -> None:
    lake = Lake(capacity=256 * MIB)
    blocks = [lake.take(8 * MIB) for _ in range(20)]
    lake.take(KIB, 1)
    lake.allocator.begin_pool((0, 1), {2})
    lake.take(4 * MIB, 2)
    lake.driver.hold(3)
    lake.allocator.record_stream(blocks[0], 3)
    lake.give(*blocks[::2])
    lake.take(70 * MIB)
    del lake.allocator
    lake.assert_empty()
    assert (lake.driver.ranges, lake.driver.events) == (0, 0)


def test_memory_that_could_not_be_unmapped_counts_until_it_is() -> None:
    lake = Lake()
    lake.allocator.set_limit(64 * MIB)
    for call in ("set_access", "unmap"):
        lake.driver.fail(call, 1, Status.unknown, 1000)
    with pytest.raises(OutOfMemory):
        lake.take(64 * MIB)
    assert lake.driver.physical_bytes == lake.stat("reserved_bytes") > 0
    lake.driver.clear_faults()
    lake.give(lake.take(64 * MIB))
    lake.allocator.trim()
    lake.assert_empty()
