"""Captures that begin while the allocator is about to use the stream, in another thread or without a word."""

from __future__ import annotations

import pytest

from gmlake._core import Status
from gmlake.errors import OutOfMemory

from .memory import GIB, KIB, MIB, Lake, overlap

OTHER = 9  # a stream with a pool of its own, so that captures are looked for


def watching(capacity: int | None = None) -> Lake:
    lake = Lake(capacity=None if capacity is None else capacity + 2 * MIB)
    lake.allocator.begin_pool((1, 0), {OTHER})
    lake.take(KIB, OTHER)  # it is heard of, and has a page
    return lake


def capturing(lake: Lake, stream: int) -> bool:
    status, answer = lake.driver.is_capturing(stream)
    assert status is Status.success
    return answer


def test_no_stream_is_drawn_into_a_capture_that_began_after_the_question() -> None:
    lake = watching(capacity=64 * MIB)
    lake.give(lake.take(64 * MIB, 1))
    lake.driver.capture_at_next_call(1)
    with pytest.raises(OutOfMemory):
        lake.take(64 * MIB, 2)
    assert [capturing(lake, stream) for stream in (1, 2)] == [True, False]
    lake.driver.set_capturing(1, False)
    lake.take(64 * MIB, 2)


@pytest.mark.parametrize("size", [4 * KIB, 16 * MIB])
@pytest.mark.parametrize("announced", [True, False])
def test_memory_comes_back_after_a_capture_that_took_its_event(size: int, announced: bool) -> None:
    lake = watching() if announced else Lake()
    block = lake.take(size)
    memory = lake.physical(block, size)
    lake.allocator.record_stream(block, 1)
    lake.give(block)
    lake.driver.capture_at_next_call(1)
    assert not overlap(lake.physical(lake.take(size), size), memory)
    assert capturing(lake, 1)
    lake.driver.set_capturing(1, False)
    taken = [lake.take(size) for _ in range(3)]
    assert any(overlap(lake.physical(other, size), memory) for other in taken)


def test_a_stream_that_is_gone_is_not_waited_for_during_a_capture() -> None:
    lake = watching(capacity=40 * MIB)
    lake.give(lake.take(32 * MIB, 1), lake.take(KIB, 3))
    lake.driver.set_capturing(3, True)
    lake.driver.fail("record", 1, Status.invalid_value, times=100)
    with pytest.raises(OutOfMemory):
        lake.take(32 * MIB, 2)
    assert lake.calls("synchronize") == 0


def test_a_shared_pool_serves_whoever_would_fail_during_a_capture() -> None:
    lake = watching(capacity=64 * MIB)
    lake.allocator.begin_pool((0, 1), {1})
    block = lake.take(40 * MIB, 1)
    lake.allocator.end_pool((0, 1))
    lake.give(block, lake.take(KIB, OTHER))
    lake.allocator.share_pool((0, 1), True)
    lake.driver.set_capturing(OTHER, True)
    assert lake.take(40 * MIB, 1) == block


def test_memory_that_others_gave_back_is_there_for_a_capture() -> None:
    lake = Lake(capacity=GIB)
    status, other = lake.driver.allocate(900 * MIB)
    assert status is Status.success
    lake.give(lake.take(16 * MIB))
    lake.driver.free(other)
    lake.allocator.begin_pool((1, 0), {1})
    lake.driver.set_capturing(1, True)
    lake.take(200 * MIB, 1)


@pytest.mark.parametrize("heard_of", [True, False])
def test_nothing_is_waited_for_while_the_stream_of_a_pool_may_be_captured(heard_of: bool) -> None:
    """A capture begins before its stream asks for memory: until then nobody can be asked whether there is one."""
    lake = Lake(capacity=64 * MIB)
    lake.take(40 * MIB)
    lake.allocator.begin_pool((1, 0), {5})
    if heard_of:
        lake.take(KIB, 5)
    lake.driver.set_capturing(5, True)
    with pytest.raises(OutOfMemory):
        lake.take(40 * MIB)
    lake.allocator.trim()
    assert lake.calls("synchronize") == 0
    lake.driver.set_capturing(5, False)
    lake.allocator.end_pool((1, 0))
    with pytest.raises(OutOfMemory):
        lake.take(40 * MIB)
    assert lake.calls("synchronize") > 0
