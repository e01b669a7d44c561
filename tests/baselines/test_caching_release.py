"""The caching allocator when memory runs short: the ladder, oversize blocks, garbage, limits."""

from __future__ import annotations

import pytest

from gmlake.errors import OutOfMemory

from .bench import MIB, Bench


def test_out_of_memory_gives_back_what_is_free_and_tries_again() -> None:
    bench = Bench("caching", capacity=100 * MIB)
    bench.give(bench.take(60 * MIB))
    bench.take(80 * MIB)
    assert bench.reserved == 80 * MIB
    assert bench.count("num_alloc_retries") == bench.count("num_sync_all_streams") == 1
    assert bench.count("num_device_free") == 1
    assert bench.count("num_ooms") == 0


def test_split_segments_cannot_be_given_back() -> None:
    bench = Bench("caching", capacity=100 * MIB)
    kept, freed = bench.take(2 * MIB), bench.take(60 * MIB)
    bench.give(freed)
    bench.allocator.trim()
    assert bench.reserved == bench.driver.physical_bytes == 20 * MIB
    bench.give(kept)


def test_out_of_memory_says_the_figures() -> None:
    bench = Bench("caching", capacity=100 * MIB)
    bench.take(30 * MIB)
    bench.take(4 * MIB)
    bench.allocator.set_limit(90 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        bench.take(60 * MIB, stream=7)
    message = str(caught.value)
    for figure in ("60.00 MiB", "stream 7", "50.00 MiB of 100.00 MiB", "90.00 MiB", "34.00 MiB", "16.00 MiB"):
        assert figure in message
    assert bench.count("num_ooms") == 1
    bench.allocator.check()
    bench.take(20 * MIB)


def test_the_limit_counts_whole_segments() -> None:
    bench = Bench("caching")
    bench.allocator.set_limit(25 * MIB)
    bench.take(2 * MIB)
    with pytest.raises(OutOfMemory):
        bench.take(10 * MIB, stream=1)
    bench.take(18 * MIB)
    assert bench.reserved == 20 * MIB


def test_pytorchs_search_ends_before_the_blocks_that_the_wait_freed() -> None:
    """The wait frees a block that would do, but PyTorch asks the driver again instead of searching."""
    bench = Bench("caching", capacity=20 * MIB)
    keep, wanted = bench.take(2 * MIB), bench.take(10 * MIB)
    bench.allocator.record_stream(wanted, 5)
    bench.driver.hold(5)
    bench.give(wanted)
    with pytest.raises(OutOfMemory):
        bench.take(10 * MIB)
    assert bench.take(10 * MIB) == wanted
    bench.give(keep)


class TestMaxSplit:
    SPEC = "caching:max_split_size_mb=40"

    def test_oversize_blocks_are_not_split(self) -> None:
        bench = Bench(self.SPEC)
        bench.give(bench.take(60 * MIB))
        address = bench.take(50 * MIB)
        assert bench.block_size(address) == 60 * MIB
        assert bench.allocator.statistics()["oversize_allocations"]["current"] == 1
        assert bench.allocator.statistics()["oversize_segments"]["current"] == 1
        assert bench.count("max_split_size") == 40 * MIB

    def test_oversize_blocks_do_not_serve_small_requests(self) -> None:
        bench = Bench(self.SPEC)
        bench.give(bench.take(60 * MIB))
        bench.take(30 * MIB)
        assert bench.reserved == 90 * MIB

    @pytest.mark.parametrize(("asked", "reserved"), [(40 * MIB + 512, 60 * MIB), (40 * MIB, 100 * MIB)])
    def test_oversize_blocks_serve_only_what_nearly_fits(self, asked: int, reserved: int) -> None:
        bench = Bench(self.SPEC)
        bench.give(bench.take(60 * MIB))
        bench.take(asked)
        assert bench.reserved == reserved

    def test_the_rounding_can_be_widened(self) -> None:
        bench = Bench(self.SPEC + ",max_non_split_rounding_mb=30")
        bench.give(bench.take(60 * MIB))
        bench.take(40 * MIB)
        assert bench.reserved == 60 * MIB

    def test_one_oversize_block_is_given_back_before_all(self) -> None:
        bench = Bench(self.SPEC, capacity=200 * MIB)
        blocks = [bench.take(size * MIB) for size in (30, 60, 90)]
        bench.give(*blocks)
        bench.take(40 * MIB)
        assert bench.reserved == (30 + 90 + 40) * MIB  # 60 went: the smallest that is large enough
        assert bench.count("num_alloc_retries") == 0

    def test_several_are_given_back_from_the_largest_down(self) -> None:
        bench = Bench(self.SPEC, capacity=200 * MIB)
        blocks = [bench.take(size * MIB) for size in (30, 42, 44, 46)]
        bench.give(*blocks)
        bench.take(80 * MIB)
        assert bench.reserved == (30 + 42 + 80) * MIB
        assert bench.count("num_alloc_retries") == 0

    def test_when_they_do_not_suffice_all_is_given_back(self) -> None:
        bench = Bench(self.SPEC, capacity=100 * MIB)
        bench.give(bench.take(30 * MIB), bench.take(42 * MIB))
        bench.take(90 * MIB)
        assert bench.reserved == 90 * MIB
        assert bench.count("num_alloc_retries") == 1
        assert bench.calls("allocate") == 2 + 1 + 1  # the driver is asked again only after all was given back

    def test_oversize_blocks_of_another_stream_stay(self) -> None:
        bench = Bench(self.SPEC, capacity=200 * MIB)
        other, own = bench.take(80 * MIB, stream=1), bench.take(60 * MIB, stream=2)
        bench.give(other, own)
        bench.take(110 * MIB, stream=2)
        assert {segment.size for segment in bench.allocator.segments()} == {110 * MIB}
        assert bench.count("num_alloc_retries") == 1


class TestGarbageCollection:
    SPEC = "caching:garbage_collection_threshold=0.5"

    def fill(self, bench: Bench) -> tuple[int, int]:
        """Two free blocks, of which the first is older by ten searches that a third one served."""
        bench.give(bench.take(3 * MIB))
        old, young = bench.take(30 * MIB), bench.take(32 * MIB)
        bench.give(old)
        for _ in range(10):
            bench.give(bench.take(3 * MIB))
        bench.give(young)
        return old, young

    def test_old_blocks_go_above_the_threshold(self) -> None:
        bench = Bench(self.SPEC)
        bench.allocator.set_limit(120 * MIB)
        self.fill(bench)
        bench.take(40 * MIB)
        sizes = {segment.size for segment in bench.allocator.segments()}
        assert 30 * MIB not in sizes
        assert 32 * MIB in sizes
        assert bench.count("num_sync_all_streams") == 0

    def test_nothing_goes_below_the_threshold(self) -> None:
        bench = Bench(self.SPEC)
        bench.allocator.set_limit(400 * MIB)
        self.fill(bench)
        bench.take(40 * MIB)
        assert bench.count("num_device_free") == 0

    def test_it_acts_only_with_a_limit(self) -> None:
        bench = Bench(self.SPEC, capacity=130 * MIB)
        self.fill(bench)
        bench.take(40 * MIB)
        assert bench.count("num_device_free") == 0
