"""GMLake as published, rule by rule."""

from __future__ import annotations

import pytest

from gmlake._core import Status
from gmlake.errors import OutOfMemory

from .bench import GIB, MIB, Bench

EAGER = "paper:frag_limit=2MiB"


def fragmented(spec: str, sizes: tuple[int, ...], capacity: int | None = None) -> Bench:
    """Free pBlocks of these sizes (in MiB, each at least 10), kept apart because each is its own segment."""
    bench = Bench(spec, capacity)
    bench.give(*[bench.take(size * MIB) for size in sizes])
    return bench


def stitched(bench: Bench) -> list[int]:
    return [segment.size // MIB for segment in bench.allocator.segments() if segment.stitched]


def test_small_requests_go_to_the_caching_allocator() -> None:
    bench = Bench("paper")
    bench.take(MIB)
    assert (bench.calls("allocate"), bench.calls("create")) == (1, 0)
    assert bench.reserved == 2 * MIB


@pytest.mark.parametrize(("asked", "created"), [(2, 20), (8, 20), (9, 10), (31, 32)])
def test_new_segments(asked: int, created: int) -> None:
    bench = Bench("paper")
    bench.take(asked * MIB)
    assert bench.reserved == created * MIB
    chunks = created // 2
    assert [bench.calls(kind) for kind in ("create", "map", "set_access")] == [chunks, chunks, chunks]


def test_the_best_fitting_pblock_is_split_to_the_chunk() -> None:
    bench = fragmented("paper", (40, 60))
    address = bench.take(38 * MIB)
    assert bench.segment_of(address).size == 40 * MIB
    assert bench.take(2 * MIB) == address + 38 * MIB


def test_stitching_takes_the_largest_first_and_splits_the_last() -> None:
    bench = fragmented(EAGER, (10, 12, 20, 30))
    before = bench.calls("map")
    bench.take(44 * MIB)
    assert stitched(bench) == [44]
    assert bench.calls("map") - before == bench.calls("set_access") - before == 22
    assert bench.own("stitches") == 1
    free = {
        s.size // MIB: sum(b.size for b in s.blocks if b.state == "inactive") // MIB
        for s in bench.allocator.segments()
        if not s.stitched
    }
    assert free == {30: 0, 20: 6, 12: 12, 10: 10}
    assert bench.reserved == 72 * MIB


def test_requests_below_the_limit_are_created_whole() -> None:
    bench = fragmented("paper:frag_limit=64MiB", (40, 40))
    bench.take(62 * MIB)
    assert (stitched(bench), bench.reserved) == ([], 142 * MIB)
    bench.give(bench.take(62 * MIB))
    bench.take(64 * MIB)
    assert stitched(bench) == [64]


def test_one_pblock_alone_is_no_stitch_and_too_few_are_not_either() -> None:
    bench = fragmented(EAGER, (40,))
    bench.take(42 * MIB)
    bench.take(82 * MIB)
    assert (stitched(bench), bench.reserved) == ([], (40 + 42 + 82) * MIB)


def test_blocks_of_other_streams_are_not_stitched() -> None:
    bench = Bench(EAGER)
    bench.give(bench.take(20 * MIB, stream=1), bench.take(20 * MIB, stream=2))
    bench.take(40 * MIB, stream=1)
    assert stitched(bench) == []


def test_a_stitched_block_is_kept_and_used_again() -> None:
    bench = fragmented(EAGER, (20, 20))
    address = bench.take(40 * MIB)
    bench.give(address)
    before = bench.driver.counts()
    assert bench.take(40 * MIB) == address
    after = bench.driver.counts()
    assert all(after[kind] == before[kind] for kind in ("create", "map", "set_access", "reserve"))
    assert bench.own("sblock_hits") == 1


def test_a_pblock_that_fits_comes_before_a_stitched_block_of_the_same_size() -> None:
    bench = fragmented(EAGER, (20, 20))
    bench.give(bench.take(40 * MIB))
    large = bench.take(100 * MIB)
    bench.give(large)
    assert bench.take(40 * MIB) == large


def test_a_stitched_block_lends_its_beginning_and_its_end_stays_free() -> None:
    bench = fragmented(EAGER, (20, 20))
    whole = bench.take(40 * MIB)
    bench.give(whole)
    part = bench.take(30 * MIB)
    assert part == whole
    assert bench.stat("active_bytes") == 30 * MIB
    assert bench.take(10 * MIB) != whole  # in the chunks at its end
    assert bench.reserved == 40 * MIB


@pytest.mark.parametrize(("limit", "hits"), [(1.5, 0), (2, 1)])
def test_a_stitched_block_serves_down_to_a_fraction_of_it(limit: float, hits: int) -> None:
    bench = fragmented(f"{EAGER},reuse_limit={limit}", (10, 10, 10, 10))
    bench.give(bench.take(40 * MIB))
    bench.take(20 * MIB)
    assert bench.own("sblock_hits") == hits


def test_a_stitched_block_with_a_busy_chunk_is_not_used() -> None:
    bench = fragmented(EAGER, (20, 20))
    address = bench.take(40 * MIB)
    bench.give(address)
    part = bench.take(2 * MIB)
    assert bench.take(40 * MIB) != address
    bench.give(part)
    assert bench.take(40 * MIB) == address


def test_released_chunks_join_their_pblocks_again() -> None:
    bench = fragmented(EAGER, (20, 20))
    bench.give(bench.take(30 * MIB))
    assert [len(s.blocks) for s in bench.allocator.segments() if not s.stitched] == [1, 1]
    assert bench.stat("inactive_split") == 0


@pytest.mark.parametrize(("level", "created"), [(0, 0), (1, 40), (2, 40)])
def test_defrag_level_delays_stitching(level: int, created: int) -> None:
    bench = fragmented(f"{EAGER},defrag_level={level}", (20, 20))
    bench.take(40 * MIB)
    assert bench.reserved == (40 + created) * MIB


def test_defrag_level_1_stitches_when_the_driver_has_nothing_left() -> None:
    bench = fragmented(f"{EAGER},defrag_level=1", (20, 20), capacity=60 * MIB)
    bench.take(40 * MIB)
    assert stitched(bench) == [40]
    assert bench.count("num_alloc_retries") == 0


def test_realloc_creates_only_what_is_missing() -> None:
    bench = fragmented(f"{EAGER},realloc=true", (20, 20))
    bench.take(60 * MIB)
    assert (stitched(bench), bench.reserved) == ([60], 60 * MIB)


def test_realloc_below_the_limit_creates_the_whole() -> None:
    bench = fragmented("paper:realloc=true", (20, 20))
    bench.take(30 * MIB)
    assert bench.reserved == 70 * MIB


def test_unused_stitched_blocks_go_when_their_addresses_are_too_many() -> None:
    bench = fragmented(f"{EAGER},gc=100MiB,reuse_limit=1", (20, 20, 20))
    for size in (40, 42):
        bench.give(bench.take(size * MIB))
    assert sorted(stitched(bench)) == [40, 42]
    bench.give(bench.take(44 * MIB))
    assert stitched(bench) == [44]
    assert bench.reserved == 60 * MIB


def test_a_stitched_block_whose_stream_is_busy_stays() -> None:
    bench = fragmented(f"{EAGER},gc=100MiB,reuse_limit=1", (20, 20, 20))
    bench.driver.hold(0)
    for size in (40, 42, 44):
        bench.give(bench.take(size * MIB))
    assert sorted(stitched(bench)) == [40, 42, 44]


def test_a_failed_stitch_changes_nothing() -> None:
    bench = fragmented(EAGER, (20, 20), capacity=40 * MIB)
    bench.driver.fail("reserve", 1, Status.out_of_memory, times=1000)
    with pytest.raises(OutOfMemory):
        bench.take(40 * MIB)
    bench.driver.clear_faults()
    bench.take(40 * MIB)
    assert bench.driver.physical_bytes == bench.reserved == 40 * MIB


@pytest.mark.parametrize("call", ["reserve", "map", "set_access"])
def test_a_stitch_that_fails_once_succeeds_after_a_collection(call: str) -> None:
    bench = fragmented(EAGER, (20, 20))
    bench.driver.fail(call, 5 if call != "reserve" else 1)
    bench.take(40 * MIB)
    assert stitched(bench) == [40]
    assert bench.driver.mappings == 40


def test_giving_back_chunks_behind_a_stitched_block_in_use() -> None:
    """The published code dereferences a null pointer when this block is released."""
    bench = fragmented(EAGER, (20, 20, 18))
    address = bench.take(58 * MIB)
    bench.give(address)
    in_use = bench.take(38 * MIB)
    assert in_use == address
    bench.allocator.trim()
    assert bench.reserved == bench.driver.physical_bytes == 40 * MIB
    assert bench.driver.accessible(in_use, 38 * MIB)
    bench.give(in_use)
    again = bench.take(38 * MIB)
    assert again != in_use
    assert bench.driver.accessible(again, 38 * MIB)
    bench.give(again)
    bench.allocator.trim()
    assert (bench.driver.physical_bytes, bench.driver.ranges, bench.driver.mappings) == (0, 0, 0)


@pytest.mark.parametrize("alone", [False, True])
def test_what_the_last_wait_frees_is_stitched_if_it_is_not_alone(alone: bool) -> None:
    bench = fragmented(EAGER, (60,), capacity=60 * MIB)
    waiting = bench.take(40 * MIB)
    bench.take(2 * MIB)  # keeps the segment
    if alone:
        bench.take(18 * MIB)
    bench.allocator.record_stream(waiting, 5)
    bench.driver.hold(5)
    bench.give(waiting)
    if alone:
        with pytest.raises(OutOfMemory):
            bench.take(40 * MIB)
    else:
        bench.take(40 * MIB)
        assert stitched(bench) == [40]


def test_private_pools_stitch_their_own_blocks_only() -> None:
    bench = fragmented(EAGER, (20, 20))
    bench.allocator.begin_pool((0, 1))
    bench.take(40 * MIB)
    assert stitched(bench) == []
    bench.give(*[bench.take(20 * MIB) for _ in range(2)])
    bench.take(40 * MIB)
    assert [s.pool for s in bench.allocator.segments() if s.stitched] == [(0, 1)]


def test_defaults_are_the_published_ones() -> None:
    bench = fragmented("paper", (300, 300))
    bench.take(500 * MIB)
    assert stitched(bench) == []
    bench.take(512 * MIB)
    assert stitched(bench) == [512]
    assert bench.reserved < 2 * GIB
