"""What the allocator shows: statistics with PyTorch's meanings, segments, the journal."""

from __future__ import annotations

import pytest

from gmlake._core import make_allocator
from gmlake.errors import InvalidArgument

from .memory import GIB, KIB, MIB, Lake

Counts = dict[str, int]


def counts(current: int, peak: int, allocated: int, freed: int) -> Counts:
    return {"current": current, "peak": peak, "allocated": allocated, "freed": freed}


def test_statistics_mean_what_they_mean_in_pytorch() -> None:
    lake = Lake()
    small, large = lake.take(1000), lake.take(5 * MIB - 1)
    lake.driver.hold(1)
    lake.allocator.record_stream(large, 1)
    lake.give(small, large)
    again = lake.take(700)
    statistics = lake.allocator.statistics()

    assert statistics["requested_bytes"]["small_pool"] == counts(700, 1000, 1700, 1000)
    assert statistics["requested_bytes"]["large_pool"] == counts(5 * MIB - 1, 5 * MIB - 1, 5 * MIB - 1, 0)
    assert statistics["allocated_bytes"]["small_pool"] == counts(1024, 1024, 2048, 1024)
    assert statistics["allocated_bytes"]["large_pool"] == counts(0, 5 * MIB, 5 * MIB, 5 * MIB)
    assert statistics["active_bytes"]["large_pool"] == counts(5 * MIB, 5 * MIB, 5 * MIB, 0)
    assert statistics["allocation"]["all"] == counts(1, 2, 3, 2)
    assert statistics["active"]["all"] == counts(2, 2, 3, 1)
    assert statistics["reserved_bytes"]["small_pool"] == counts(2 * MIB, 2 * MIB, 2 * MIB, 0)
    assert statistics["reserved_bytes"]["large_pool"] == counts(6 * MIB, 6 * MIB, 6 * MIB, 0)
    assert statistics["segment"]["all"]["current"] == lake.driver.handles == statistics["num_device_alloc"]
    assert statistics["inactive_split_bytes"]["large_pool"]["current"] == MIB

    lake.driver.finish(1)
    lake.give(again)
    lake.allocator.trim()
    statistics = lake.allocator.statistics()
    for name in ("requested_bytes", "active_bytes", "reserved_bytes"):
        assert statistics[name]["all"]["current"] == 0, name
    assert statistics["reserved_bytes"]["all"]["freed"] == 8 * MIB
    assert statistics["num_device_free"] == statistics["num_device_alloc"]


def test_the_pools_add_up_to_all() -> None:
    lake = Lake()
    blocks = [lake.take(size) for size in (KIB, MIB, 3 * MIB, 30 * MIB)]
    lake.give(*blocks[::2])
    lake.allocator.trim()
    for name, value in lake.allocator.statistics().items():
        if isinstance(value, dict) and "small_pool" in value:
            for what in ("current", "allocated", "freed"):
                total = value["small_pool"][what] + value["large_pool"][what]
                assert value["all"][what] == total, (name, what)


def test_peaks_and_totals_can_be_reset() -> None:
    lake = Lake()
    keep = lake.take(4 * MIB)
    lake.give(lake.take(16 * MIB))
    lake.allocator.reset_peaks()
    lake.allocator.reset_accumulated()
    statistics = lake.allocator.statistics()
    assert statistics["allocated_bytes"]["all"] == counts(4 * MIB, 4 * MIB, 0, 0)
    assert statistics["num_device_alloc"] == statistics["gmlake"]["grows"] == 0
    lake.give(keep)
    assert lake.stat("allocated_bytes", what="freed") == 4 * MIB


def test_our_own_counters() -> None:
    lake = Lake(capacity=128 * MIB)
    blocks = [lake.take(16 * MIB) for _ in range(8)]
    assert lake.own("grows") == 8
    assert lake.own("mapped_bytes") == 128 * MIB
    lake.give(*blocks[::2])
    lake.take(64 * MIB, 1)
    assert lake.own("stitches") == 1
    assert lake.own("fences") > 0
    assert lake.own("rehomed_bytes") + lake.own("sblocks") > 0
    assert lake.own("address_bytes") >= lake.own("mapped_bytes")


def test_segments_count_physical_memory_once() -> None:
    lake = Lake(capacity=256 * MIB)
    for _ in range(5):
        blocks = [lake.take(8 * MIB) for _ in range(32)]
        lake.give(*blocks[::2])
        lake.give(lake.take(100 * MIB))
        stitched = lake.take(100 * MIB)
        shown = lake.allocator.segments()
        assert sum(segment.size for segment in shown if not segment.stitched) == lake.driver.physical_bytes
        active = [block for segment in shown for block in segment.blocks if block.state == "active_allocated"]
        assert {block.address for block in active} == {stitched, *blocks[1::2]}
        assert sum(block.requested for block in active) == lake.stat("requested_bytes")
        lake.give(stitched, *blocks[1::2])
    assert any(segment.stitched for segment in lake.allocator.segments())


def test_segments_show_the_pages_that_nobody_uses() -> None:
    lake = Lake()
    lake.give(*[lake.take(MIB, stream) for stream in (1, 2) for _ in range(20)], lake.take(16 * MIB))
    assert sum(segment.size for segment in lake.allocator.segments()) == lake.reserved > 16 * MIB


def test_blocks_tile_their_segment() -> None:
    lake = Lake(capacity=64 * GIB)
    blocks = [lake.take(size, stream) for size in (KIB, 3 * MIB, 20 * MIB) for stream in range(3) for _ in range(4)]
    lake.give(*blocks[::3])
    for segment in lake.allocator.segments():
        at = segment.address
        for block in segment.blocks:
            assert block.address == at
            at += block.size
        assert at == segment.address + segment.size
        assert lake.driver.accessible(segment.address, segment.size)


def test_the_journal_is_off_unless_started() -> None:
    lake = Lake()
    lake.give(lake.take(4 * MIB))
    assert lake.allocator.journal() == []


def test_the_journal_tells_what_happened() -> None:
    lake = Lake(capacity=64 * MIB)
    lake.allocator.start_journal(100)
    block = lake.take(5 * MIB, 3)
    lake.driver.hold(4)
    lake.allocator.record_stream(block, 4)
    lake.give(block)
    lake.driver.finish(4)
    small = lake.take(100)
    with pytest.raises(MemoryError):
        lake.allocator.allocate(80 * MIB, 3)
    lake.allocator.trim()
    entries = lake.allocator.journal()
    told = [(entry.action, entry.address, entry.size) for entry in entries]
    for expected in (
        ("alloc", block, 5 * MIB),
        ("free_requested", block, 5 * MIB),
        ("free_completed", block, 5 * MIB),
        ("alloc", small, 100),
    ):
        assert expected in told
    assert [(entry.size, entry.stream) for entry in entries if entry.action == "oom"] == [(80 * MIB, 3)]
    actions = [entry.action for entry in entries]
    assert actions[0] == "map"
    assert actions[-1] in ("trim", "unmap")
    assert [entry.time_us for entry in entries] == sorted(entry.time_us for entry in entries)
    assert next(entry.stream for entry in entries if entry.action == "alloc") == 3


def test_a_free_is_told_in_full_where_the_journal_began_after_the_allocation() -> None:
    lake = Lake()
    blocks = [lake.take(1000, 5), lake.take(5 * MIB - 1, 7)]
    lake.allocator.start_journal(100)
    lake.give(*blocks)
    told = [(entry.action, entry.address, entry.size, entry.stream) for entry in lake.allocator.journal()]
    assert told == [
        (action, block, size, stream)
        for block, size, stream in ((blocks[0], 1000, 5), (blocks[1], 5 * MIB - 1, 7))
        for action in ("free_requested", "free_completed")
    ]


def test_the_journal_keeps_the_latest() -> None:
    lake = Lake()
    lake.allocator.start_journal(6)
    blocks = [lake.take(512) for _ in range(10)]
    assert [entry.address for entry in lake.allocator.journal()] == blocks[-6:]
    lake.allocator.start_journal(3)
    assert lake.allocator.journal() == []
    lake.give(blocks[0])
    assert len(lake.allocator.journal()) == 2
    lake.allocator.start_journal(0)
    lake.give(blocks[1])
    assert lake.allocator.journal() == []


@pytest.mark.parametrize("entries", [-1, 2**40, 2**64])
def test_a_journal_of_impossible_length(entries: int) -> None:
    lake = Lake()
    lake.allocator.start_journal(10)
    with pytest.raises(InvalidArgument, match=str(entries)):
        lake.allocator.start_journal(entries)
    lake.take(512)
    assert lake.allocator.journal()


def test_an_allocator_without_a_journal_says_so() -> None:
    lake = Lake()
    with pytest.raises(InvalidArgument, match="keeps no journal"):
        make_allocator("native", lake.driver).start_journal(10)


def test_free_splinters_are_counted_like_everything_else() -> None:
    lake = Lake()
    blocks = [lake.take(5 * 512 * KIB) for _ in range(6)]
    lake.give(blocks[1], blocks[3])
    found = lake.allocator.statistics()["inactive_split"]["all"]
    assert found["current"] > 0
    assert found["allocated"] - found["freed"] == found["current"]
    assert found["freed"] == 0
    lake.give(*blocks[0::2], blocks[5])
    lake.allocator.trim()
    lake.allocator.reset_peaks()  # nobody has looked since
    lake.allocator.reset_accumulated()
    assert set(lake.allocator.statistics()["inactive_split"]["all"].values()) == {0}


def test_small_blocks_that_cannot_go_are_counted_too() -> None:
    lake = Lake()
    blocks = [lake.take(100 * 1024) for _ in range(6)]
    lake.give(blocks[1], blocks[3])
    statistics = lake.allocator.statistics()
    assert statistics["inactive_split"]["small_pool"]["current"] == 3  # the two and the rest of the slab
    assert statistics["inactive_split_bytes"]["small_pool"]["current"] == 2 * MIB - 4 * 100 * 1024
    assert statistics["inactive_split_bytes"]["all"]["current"] == 2 * MIB - 4 * 100 * 1024
    lake.give(*blocks[0::2], blocks[5])
    assert lake.allocator.statistics()["inactive_split_bytes"]["all"]["current"] == 0


def test_fences_are_counted_anew() -> None:
    lake = Lake(capacity=64 * MIB)
    lake.give(lake.take(48 * MIB, 0))
    lake.take(48 * MIB, 1)
    assert lake.own("fences") == 1
    lake.allocator.reset_accumulated()
    assert lake.own("fences") == 0


def test_the_journal_names_the_pool_of_its_mappings() -> None:
    lake = Lake()
    lake.allocator.start_journal(100)
    lake.allocator.begin_pool((0, 7), None)
    lake.give(lake.take(MIB), lake.take(16 * MIB))
    lake.allocator.end_pool((0, 7))
    lake.allocator.release_pool((0, 7))
    lake.allocator.trim()
    entries = [entry for entry in lake.allocator.journal() if entry.action != "trim"]
    assert {entry.action for entry in entries} > {"map", "unmap"}
    assert {entry.pool for entry in entries} == {(0, 7)}
