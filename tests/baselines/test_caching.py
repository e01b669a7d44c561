"""PyTorch's caching allocator, rule by rule: pools, segments, best fit, splitting and joining."""

from __future__ import annotations

import pytest

from .bench import KIB, MIB, Bench


@pytest.mark.parametrize(
    ("asked", "segment", "kind"),
    [
        (1, 2 * MIB, "small"),
        (MIB, 2 * MIB, "small"),
        (MIB + 512, 20 * MIB, "large"),
        (10 * MIB - 512, 20 * MIB, "large"),
        (10 * MIB, 10 * MIB, "large"),
        (11 * MIB, 12 * MIB, "large"),
    ],
)
def test_segment_sizes(asked: int, segment: int, kind: str) -> None:
    bench = Bench("caching")
    address = bench.take(asked)
    found = bench.segment_of(address)
    assert (found.address, found.size, found.kind) == (address, segment, kind)


def test_small_and_large_pools_do_not_mix() -> None:
    bench = Bench("caching")
    bench.give(bench.take(5 * MIB))
    small = bench.take(KIB)
    assert bench.segment_of(small).kind == "small"


def test_small_blocks_are_split_to_the_last_512_bytes() -> None:
    bench = Bench("caching")
    first = bench.take(MIB)
    second = bench.take(MIB - 512)
    third = bench.take(512)
    assert (second, third) == (first + MIB, first + 2 * MIB - 512)
    assert bench.reserved == 2 * MIB


@pytest.mark.parametrize(("rest", "is_split"), [(MIB, False), (MIB + 512, True)])
def test_large_blocks_are_split_if_more_than_1_mib_is_left(rest: int, is_split: bool) -> None:
    bench = Bench("caching")
    address = bench.take(20 * MIB - rest)
    assert bench.block_size(address) == (20 * MIB - rest if is_split else 20 * MIB)


def test_the_smallest_block_that_fits_is_taken() -> None:
    bench = Bench("caching")
    large, small, fence = bench.take(40 * MIB), bench.take(30 * MIB), bench.take(50 * MIB)
    bench.give(large, small)
    assert bench.take(28 * MIB) == small
    assert bench.take(30 * MIB) == large
    assert fence not in (large, small)


def test_blocks_of_another_stream_are_not_taken() -> None:
    bench = Bench("caching")
    address = bench.take(30 * MIB, stream=1)
    bench.give(address)
    assert bench.take(30 * MIB, stream=2) != address
    assert bench.take(30 * MIB, stream=1) == address


@pytest.mark.parametrize(("ties", "first"), [("address", 0), ("registration", 1)])
def test_ties_go_to_the_lowest_address_or_the_oldest_segment(ties: str, first: int) -> None:
    bench = Bench(f"caching:ties={ties}")
    high = 16 << 40
    bench.driver.hand_out([high, high - 64 * MIB])
    older, lower = bench.take(30 * MIB), bench.take(30 * MIB)
    bench.give(older, lower)
    assert bench.take(30 * MIB) == (lower, older)[first]


def test_free_neighbours_are_joined_on_both_sides() -> None:
    bench = Bench("caching")
    one, two, three = (bench.take(6 * MIB) for _ in range(3))
    bench.give(one, three)
    assert [block.size for block in bench.segment_of(one).blocks] == [6 * MIB, 6 * MIB, 8 * MIB]
    bench.give(two)
    assert [block.size for block in bench.segment_of(one).blocks] == [20 * MIB]


def test_neighbouring_segments_are_not_joined() -> None:
    bench = Bench("caching")
    one, two = bench.take(10 * MIB), bench.take(10 * MIB)
    assert two == one + 10 * MIB
    bench.give(one, two)
    assert len(bench.allocator.segments()) == 2


def test_cached_blocks_need_no_driver_call() -> None:
    bench = Bench("caching")
    for size in (KIB, 3 * MIB, 30 * MIB):
        bench.give(bench.take(size))
    before = bench.driver.counts()
    for size in (KIB, 3 * MIB, 30 * MIB):
        bench.give(bench.take(size))
    assert bench.driver.counts() == before


def test_statistics_of_a_split_block() -> None:
    bench = Bench("caching")
    first, second = bench.take(4 * MIB), bench.take(4 * MIB)
    assert bench.stat("inactive_split") == 1
    assert bench.stat("inactive_split_bytes", "large_pool") == 12 * MIB
    assert bench.stat("active") == bench.stat("allocation") == 2
    bench.give(first)
    assert bench.stat("inactive_split") == 2
    bench.give(second)
    assert bench.stat("inactive_split") == bench.stat("inactive_split_bytes") == 0
    assert bench.stat("inactive_split_bytes", what="peak") == 16 * MIB
    assert bench.stat("segment") == 1
    assert bench.stat("allocated_bytes", what="allocated") == bench.stat("allocated_bytes", what="freed") == 8 * MIB


def test_peaks_and_totals_can_be_reset() -> None:
    bench = Bench("caching")
    bench.give(bench.take(30 * MIB))
    bench.allocator.reset_peaks()
    assert bench.stat("active_bytes", what="peak") == 0
    assert bench.stat("reserved_bytes", what="peak") == 30 * MIB
    bench.allocator.reset_accumulated()
    assert bench.stat("active_bytes", what="allocated") == 0
    assert bench.count("num_device_alloc") == 0
