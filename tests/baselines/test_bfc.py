"""TensorFlow's best-fit allocator with coalescing, rule by rule."""

from __future__ import annotations

import pytest

from gmlake.errors import OutOfMemory

from .bench import KIB, MIB, Bench


def regions(bench: Bench) -> list[int]:
    return [segment.size for segment in bench.allocator.segments()]


def test_requests_are_rounded_to_256_bytes() -> None:
    bench = Bench("bfc")
    assert bench.take(257) + 512 == bench.take(1)
    assert bench.stat("allocated_bytes") == 768


def test_regions_double() -> None:
    bench = Bench("bfc")
    for size in (2, 4, 8, 16):
        bench.take(size * MIB)
    assert regions(bench) == [2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]


def test_a_region_grows_to_the_request_by_powers_of_two_and_does_not_double_again() -> None:
    bench = Bench("bfc")
    bench.take(33 * MIB)
    bench.take(64 * MIB)
    assert regions(bench) == [64 * MIB, 64 * MIB]


def test_regions_given_back_and_taken_again_for_ever_do_not_overflow() -> None:
    bench = Bench("bfc", capacity=64 * MIB)
    for _ in range(100):
        bench.give(bench.take(MIB))
        bench.allocator.trim()
    bench.take(40 * MIB)
    assert regions(bench) == [64 * MIB]


@pytest.mark.parametrize(("asked", "got"), [(8 * MIB, 8 * MIB), (8 * MIB + 256, 16 * MIB)])
def test_a_part_is_split_if_half_of_it_would_be_left(asked: int, got: int) -> None:
    bench = Bench("bfc")
    bench.give(bench.take(16 * MIB))
    assert bench.block_size(bench.take(asked)) == got


@pytest.mark.parametrize(("rest", "is_split"), [(128 * MIB, True), (128 * MIB - 256, False)])
def test_a_part_is_split_if_128_mib_would_be_wasted(rest: int, is_split: bool) -> None:
    bench = Bench("bfc")
    bench.give(bench.take(512 * MIB))
    address = bench.take(512 * MIB - rest)
    assert bench.block_size(address) == (512 * MIB - rest if is_split else 512 * MIB)


def test_the_waste_can_be_a_fraction_of_the_limit() -> None:
    bench = Bench("bfc:fragmentation_fraction=0.01,memory_limit=1000MiB")
    bench.give(bench.take(64 * MIB))
    assert bench.block_size(bench.take(54 * MIB)) == 54 * MIB


def test_the_smallest_part_that_fits_is_taken_across_bins() -> None:
    bench = Bench("bfc")
    large, small, fence = bench.take(64 * MIB), bench.take(40 * MIB), bench.take(100 * MIB)
    bench.give(large, small)
    assert bench.take(35 * MIB) == min(large, small)  # both regions have 64 MiB: the lowest address
    bench.give(fence)


def test_free_neighbours_are_joined() -> None:
    bench = Bench("bfc")
    parts = [bench.take(256 * KIB) for _ in range(8)]
    for part in (*parts[::2], *parts[1::2]):
        bench.give(part)
    assert bench.take(2 * MIB) == parts[0]
    assert regions(bench) == [2 * MIB]


def test_less_is_asked_for_when_the_driver_refuses() -> None:
    bench = Bench("bfc", capacity=100 * MIB)
    bench.take(64 * MIB)
    bench.take(30 * MIB)  # the next region would have 64 MiB; 36 MiB are left
    assert bench.driver.physical_bytes <= 100 * MIB
    assert 30 * MIB <= regions(bench)[1] <= 36 * MIB


def test_unused_regions_go_before_giving_up() -> None:
    bench = Bench("bfc", capacity=100 * MIB)
    bench.give(bench.take(64 * MIB))
    bench.take(80 * MIB)
    assert bench.count("num_alloc_retries") == 0
    assert bench.count("num_device_free") == 1


def test_without_garbage_collection_only_the_last_resort_gives_back() -> None:
    bench = Bench("bfc:garbage_collection=false", capacity=100 * MIB)
    bench.give(bench.take(64 * MIB))
    bench.take(80 * MIB)
    assert bench.count("num_alloc_retries") == 1


def test_without_growth_the_first_region_is_everything() -> None:
    bench = Bench("bfc:allow_growth=false,memory_limit=256MiB")
    bench.take(KIB)
    assert regions(bench) == [256 * MIB]
    with pytest.raises(OutOfMemory):
        bench.take(256 * MIB)


def test_streams_have_arenas_of_their_own_and_share_the_limit() -> None:
    bench = Bench("bfc:memory_limit=64MiB")
    bench.give(bench.take(32 * MIB, stream=1))
    bench.take(48 * MIB, stream=2)  # takes the other arena's unused region away
    assert [segment.stream for segment in bench.allocator.segments()] == [2]
    with pytest.raises(OutOfMemory):
        bench.take(48 * MIB, stream=1)
