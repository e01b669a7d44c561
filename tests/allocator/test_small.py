"""Small blocks: slabs of one page, for one stream each, that come and go as a whole."""

from __future__ import annotations

import itertools

import pytest

from gmlake.errors import OutOfMemory

from .memory import KIB, MIB, PAGE, Lake, Mark, overlap


def test_small_blocks_share_a_page() -> None:
    lake = Lake()
    blocks = [lake.take(1 + 100 * number) for number in range(40)]
    assert lake.driver.physical_bytes == PAGE
    spans = sorted((address, 1 + 100 * number) for number, address in enumerate(blocks))
    assert all(address + size <= following for (address, size), (following, _) in itertools.pairwise(spans))
    assert {segment.kind for segment in lake.allocator.segments()} == {"small"}


def test_the_limit_of_small_blocks_is_an_option() -> None:
    lake = Lake("small_limit=4KiB")
    lake.take(4 * KIB)
    lake.take(4 * KIB + 1)
    assert lake.stat("allocation", "small_pool") == lake.stat("allocation", "large_pool") == 1


def test_neighbours_are_joined_when_both_are_free() -> None:
    lake = Lake()
    lake.take(512)
    parts = [lake.take(300 * KIB) for _ in range(6)]
    lake.give(*parts[::2])
    lake.give(*parts[1::2])
    before = lake.driver.counts()
    lake.take(900 * KIB)
    lake.take(900 * KIB)
    assert lake.driver.counts() == before


def test_a_slab_belongs_to_one_stream() -> None:
    lake = Lake()
    blocks = {stream: [lake.take(KIB, stream) for _ in range(3)] for stream in range(3)}
    assert len(lake.allocator.segments()) == 3
    for segment in lake.allocator.segments():
        inside = {stream for stream, some in blocks.items() if segment.address <= some[0] < segment.address + PAGE}
        assert inside == {segment.stream}


def test_empty_slabs_serve_other_streams_and_go_on_trim() -> None:
    lake = Lake(capacity=8 * MIB)
    blocks = [lake.take(MIB) for _ in range(8)]
    with pytest.raises(OutOfMemory):
        lake.allocator.allocate(KIB, 1)
    lake.give(*blocks)
    lake.give(*[lake.take(MIB, 1) for _ in range(8)])
    assert lake.driver.physical_bytes == 8 * MIB
    lake.allocator.trim()
    lake.assert_empty()


def test_a_slab_that_changes_streams_waits_for_the_one_before() -> None:
    lake = Lake(capacity=4 * MIB)
    lake.driver.hold(0)
    lake.give(*[lake.take(MIB) for _ in range(4)])
    blocks = [lake.take(MIB, 1) for _ in range(2)]
    assert lake.driver.physical_bytes == 4 * MIB
    behind = Mark(lake.driver, 1)
    assert blocks and not behind.reached
    lake.driver.finish(0)
    assert behind.reached


def test_small_and_large_blocks_trade_memory() -> None:
    lake = Lake(capacity=32 * MIB)
    lake.give(*[lake.take(MIB) for _ in range(32)])
    lake.give(lake.take(32 * MIB))
    lake.give(*[lake.take(MIB, 1) for _ in range(32)])
    lake.take(32 * MIB, 2)


def test_a_page_that_large_blocks_lend_is_fenced() -> None:
    lake = Lake(capacity=32 * MIB)
    large = lake.take(32 * MIB)
    behind_it = lake.physical(large, 32 * MIB)
    lake.driver.hold(0)
    lake.give(large)
    small = lake.take(KIB, 1)
    assert overlap(lake.physical(small, KIB), behind_it)
    mark = Mark(lake.driver, 1)
    assert not mark.reached
    assert lake.driver.accessible(large, 32 * MIB), "the old address went under work that may use it"
    lake.driver.finish(0)
    assert mark.reached
