"""The five states of a request, as the paper has them: what each may ask of the driver, and what it may not."""

from __future__ import annotations

import pytest

from gmlake.errors import OutOfMemory

from .memory import GIB, MIB, Lake, overlap


def scattered(lake: Lake) -> tuple[list[int], list[int]]:
    """128 MiB of blocks, every other one released; what is left, and where the released ones were."""
    blocks = [lake.take(16 * MIB) for _ in range(8)]
    lake.give(*blocks[::2])
    return blocks[1::2], blocks[::2]


@pytest.mark.parametrize("size", [3 * MIB, 16 * MIB, 33 * MIB + 512, 700 * MIB])
def test_s1_the_same_size_again_needs_no_driver(size: int) -> None:
    lake = Lake()
    for _ in range(3):
        before = lake.driver.counts()
        blocks = [lake.take(size) for _ in range(4)]
        lake.give(*blocks)
    assert lake.driver.counts() == before


def test_s2_a_larger_block_is_split_without_the_driver() -> None:
    lake = Lake()
    lake.give(lake.take(64 * MIB))
    before = lake.driver.counts()
    parts = [lake.take(20 * MIB), lake.take(30 * MIB), lake.take(14 * MIB)]
    assert lake.driver.counts() == before
    lake.give(*parts)
    lake.take(64 * MIB)
    assert lake.driver.counts() == before, "the parts were not joined again"


@pytest.mark.parametrize("capacity", [128 * MIB, 64 * GIB])
def test_s3_scattered_memory_becomes_one_block_and_none_is_created(capacity: int) -> None:
    lake = Lake(capacity=capacity, limit=128 * MIB)
    kept, _ = scattered(lake)
    created, stitches = lake.calls("create"), lake.own("stitches")
    large = lake.take(64 * MIB)
    assert lake.calls("create") == created
    assert lake.own("stitches") == stitches + 1
    assert lake.stat("reserved_bytes") == lake.driver.physical_bytes == 128 * MIB
    for block in kept:
        assert not overlap(lake.physical(large, 64 * MIB), lake.physical(block, 16 * MIB))


def test_s3_the_old_addresses_go() -> None:
    lake = Lake(capacity=128 * MIB)
    _, holes = scattered(lake)
    lake.take(64 * MIB)
    lake.allocator.trim()
    assert not any(lake.driver.accessible(hole, 2 * MIB) for hole in holes)
    assert lake.driver.mappings == lake.driver.handles


def test_s4_only_the_missing_part_is_created() -> None:
    lake = Lake(capacity=160 * MIB)
    scattered(lake)
    lake.take(80 * MIB)
    assert lake.stat("reserved_bytes") == 144 * MIB


def test_s4_creates_rather_than_stitches_while_memory_is_well_used() -> None:
    lake = Lake(capacity=8 * GIB)
    for _ in range(8):
        lake.take(512 * MIB)
    assert lake.own("stitches") == 0
    assert lake.stat("reserved_bytes") == 4 * GIB


def test_s5_out_of_memory_tells_the_figures_and_changes_nothing() -> None:
    lake = Lake(capacity=128 * MIB)
    block = lake.take(100 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        lake.allocator.allocate(40 * MIB)
    for figure in ("device 0", "40.00 MiB asked", "100.00 MiB active", "100.00 MiB reserved", "of 128.00 MiB"):
        assert figure in str(caught.value)
    assert "exceeds what is there by 12.00 MiB" in str(caught.value)
    lake.allocator.check()
    assert (lake.stat("allocation"), lake.allocator.statistics()["num_ooms"]) == (1, 1)
    lake.give(block)
    lake.take(128 * MIB)


def test_s5_a_limit_is_named() -> None:
    lake = Lake(capacity=64 * GIB, limit=128 * MIB)
    lake.take(100 * MIB)
    with pytest.raises(OutOfMemory, match=r"limited to 128.00 MiB; the request exceeds what is there by 12.00 MiB"):
        lake.allocator.allocate(40 * MIB)


def test_s5_memory_that_lies_in_used_chunks_is_not_called_missing() -> None:
    """Private pools do not move, so what is free in them may be too scattered."""
    lake = Lake(capacity=128 * MIB)
    lake.allocator.begin_pool((0, 1))
    scattered(lake)
    with pytest.raises(OutOfMemory, match="partly in use"):
        lake.allocator.allocate(40 * MIB + 1)


def test_every_rung_of_the_ladder_is_tried_before_giving_up() -> None:
    """Spare slabs, idle sBlocks, blocks in limbo, an unused pool: together they are just enough."""
    lake = Lake(capacity=128 * MIB)
    small = [lake.take(512 * 1024) for _ in range(64)]
    used_elsewhere = lake.take(32 * MIB)
    lake.allocator.begin_pool((1, 0))
    private = lake.take(32 * MIB)
    lake.allocator.end_pool((1, 0))
    rest = lake.take(32 * MIB)
    lake.driver.hold(1)
    lake.allocator.record_stream(used_elsewhere, 1)
    lake.allocator.release_pool((1, 0))
    lake.give(*small, used_elsewhere, private, rest)
    lake.take(128 * MIB)
    assert lake.allocator.statistics()["num_alloc_retries"] == 1
