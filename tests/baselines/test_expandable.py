"""PyTorch's expandable segments, rule by rule."""

from __future__ import annotations

import pytest

from gmlake.errors import OutOfMemory

from .bench import KIB, MIB, Bench

PAGE = 20 * MIB


def test_a_pool_of_a_stream_grows_one_segment_by_whole_pages() -> None:
    bench = Bench("expandable")
    first = bench.take(5 * MIB)
    second = bench.take(30 * MIB)
    assert second == first + 5 * MIB
    assert bench.reserved == 2 * PAGE
    assert bench.driver.ranges == 1
    assert bench.driver.handles == bench.calls("map") == 2
    assert bench.calls("set_access") == 2
    assert bench.driver.accessible(first, 40 * MIB)


def test_small_requests_have_pages_of_2_mib() -> None:
    bench = Bench("expandable")
    bench.take(KIB)
    assert bench.reserved == 2 * MIB
    assert [segment.kind for segment in bench.allocator.segments()] == ["small"]


def test_the_page_follows_large_segment_size() -> None:
    bench = Bench("expandable:large_segment_size_mb=32")
    bench.take(2 * MIB)
    assert bench.reserved == 32 * MIB


def test_streams_have_segments_of_their_own() -> None:
    bench = Bench("expandable")
    bench.take(5 * MIB, stream=1)
    bench.take(5 * MIB, stream=2)
    assert bench.driver.ranges == 2


def test_every_block_is_split() -> None:
    bench = Bench("expandable")
    address = bench.take(PAGE - 512)
    assert bench.block_size(address) == PAGE - 512
    assert bench.stat("inactive_split") == 0


def test_growing_takes_the_free_block_before_the_end_in() -> None:
    bench = Bench("expandable")
    first = bench.take(5 * MIB)
    assert bench.take(20 * MIB) == first + 5 * MIB
    assert bench.reserved == 2 * PAGE


def test_the_growing_end_is_left_alone_while_others_fit() -> None:
    """The block before the unmapped addresses counts as large as it could grow: the hole fits better."""
    bench = Bench("expandable")
    hole, fence = bench.take(16 * MIB), bench.take(14 * MIB)
    bench.give(hole)
    assert [block.size for block in bench.segment_of(hole).blocks] == [16 * MIB, 14 * MIB, 10 * MIB]
    assert bench.take(10 * MIB) == hole
    bench.give(fence)


def test_whole_free_pages_go_wherever_they_are() -> None:
    bench = Bench("expandable")
    first, middle, last = bench.take(5 * MIB), bench.take(70 * MIB), bench.take(5 * MIB)
    bench.give(middle)
    bench.allocator.trim()
    assert bench.reserved == bench.driver.physical_bytes == 2 * PAGE
    assert [len(segment.blocks) for segment in bench.allocator.segments()] == [2, 2]
    assert bench.driver.accessible(first, 5 * MIB)
    assert bench.driver.accessible(last, 5 * MIB)
    assert not bench.driver.accessible(first, PAGE + 512)


def test_holes_are_filled_from_the_lowest_address() -> None:
    bench = Bench("expandable")
    first, middle, last = bench.take(5 * MIB), bench.take(70 * MIB), bench.take(5 * MIB)
    bench.give(middle)
    bench.allocator.trim()
    assert bench.take(60 * MIB) == middle
    assert bench.driver.ranges == 1
    bench.give(first, last)


def test_unmapping_waits_for_the_stream() -> None:
    bench = Bench("expandable")
    bench.give(bench.take(30 * MIB, stream=4))
    before = bench.calls("synchronize")
    bench.allocator.trim()
    assert bench.calls("synchronize") == before + 1
    assert bench.driver.events == 0


def test_memory_short_takes_pages_from_other_streams() -> None:
    bench = Bench("expandable", capacity=5 * PAGE)
    bench.give(bench.take(4 * PAGE, stream=1))
    bench.take(3 * PAGE, stream=2)
    assert bench.reserved == 3 * PAGE
    assert bench.count("num_alloc_retries") == 1


def test_a_page_that_cannot_be_created_leaves_nothing_behind() -> None:
    bench = Bench("expandable")
    bench.take(5 * MIB)
    bench.driver.fail("create", 3)  # the third of three new pages: the ladder tries again
    bench.take(70 * MIB)
    assert bench.driver.physical_bytes == bench.reserved == 4 * PAGE
    assert bench.driver.handles == bench.driver.mappings == 4


def test_a_range_that_never_held_anything_stays_for_the_next_request() -> None:
    """Memory ran out after it was reserved; PyTorch keeps it, and its address decides which range grows next."""
    bench = Bench("expandable", capacity=2 * PAGE)
    first = bench.take(2 * PAGE, stream=1)
    with pytest.raises(OutOfMemory):
        bench.take(PAGE, stream=2)
    assert bench.driver.ranges == 2
    bench.give(first)
    bench.allocator.trim()
    assert bench.driver.ranges == 1
    bench.take(PAGE, stream=2)
    assert bench.driver.ranges == 1
    assert bench.calls("reserve") == 2
