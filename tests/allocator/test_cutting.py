"""Chunks are cut to measure where memory is scarce or the target was missed, so that what a block leaves of one is of
use to others."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from gmlake._core import OutOfMemory, Status

from .memory import GIB, MIB, PAGE, Lake

# On a device of this size chunks are up to 16 MiB, and when more is asked for less than a sixth of it is left.
DEVICE, MUCH, MORE = 48 * GIB, 42 * GIB, GIB
BLOCK = 100 * MIB  # ends within a chunk


def free_lake(device: int = DEVICE) -> Lake:
    """Large chunks, all of them free."""
    lake = Lake(capacity=device)
    lake.give(lake.take(MUCH), lake.take(MORE))
    return lake


def chunks_behind(lake: Lake, address: int, size: int) -> set[int]:
    return {piece.handle for piece in lake.physical(address, size)}


def test_a_chunk_ends_where_the_block_does() -> None:
    lake = free_lake()
    reserved = lake.reserved
    block = lake.take(BLOCK)
    behind = lake.take(40 * MIB)
    assert lake.own("cuts") > 0
    assert behind == block + BLOCK
    assert not chunks_behind(lake, block, BLOCK) & chunks_behind(lake, behind, 40 * MIB)
    assert lake.reserved == reserved == lake.driver.physical_bytes


def test_what_is_left_of_a_chunk_can_be_given_back() -> None:
    lake = free_lake()
    blocks = [lake.take(size) for _ in range(20) for size in (BLOCK, 10 * MIB)]
    lake.give(*blocks[1::2])
    lake.allocator.trim()
    assert lake.reserved == 20 * BLOCK


def test_a_program_that_repeats_itself_cuts_once() -> None:
    lake = free_lake()

    def step() -> None:
        lake.give(*[lake.take(size) for _ in range(4) for size in (BLOCK, 46 * MIB)])

    step()
    cuts, calls = lake.own("cuts"), lake.memory_calls()
    assert cuts > 0
    for _ in range(5):
        step()
    assert (lake.own("cuts"), lake.memory_calls()) == (cuts, calls)


def test_nothing_is_cut_where_there_is_plenty() -> None:
    lake = free_lake(device=80 * GIB)
    lake.take(BLOCK)
    assert lake.own("cuts") == 0


def test_where_more_is_reserved_than_the_target_allows_chunks_are_cut_too() -> None:
    lake = free_lake(device=80 * GIB)
    blocks = [lake.take(12 * MIB) for _ in range(MUCH // (12 * MIB))]
    lake.give(*blocks[1::2])  # no chunk is free as a whole
    blocks = [*blocks[::2], lake.take(2 * GIB), lake.take(2 * GIB)]
    assert (lake.reserved > (MUCH + MORE) / 0.98, lake.own("cuts")) == (True, 0)
    lake.give(*blocks)
    block, behind = lake.take(BLOCK), lake.take(BLOCK)
    assert lake.own("cuts") > 0
    assert not chunks_behind(lake, block, BLOCK) & chunks_behind(lake, behind, BLOCK)


def test_where_much_is_lost_the_space_of_other_streams_is_cut_and_a_shared_page_stands_alone() -> None:
    lake = free_lake()
    lost = [lake.take(7 * MIB) for _ in range(5000)]
    lake.give(*lost[1::2])  # no chunk is free as a whole
    lake.give(lake.take(12 * GIB))
    assert lake.own("cuts") == 0
    for size in (BLOCK, BLOCK + 512):
        block = lake.take(size, 1)
        assert lake.take(40 * MIB, 1) == block + size
        page = (block + size) // PAGE * PAGE
        before, shared, behind = (lake.driver.handle_at(at) for at in (page - PAGE, page, page + PAGE))
        assert before != shared
        assert shared != behind or size == BLOCK  # which shares none
    assert lake.own("cuts") > 0
    lake.allocator.check()


def test_nothing_is_cut_for_a_block_that_is_small() -> None:
    lake = free_lake()
    lake.take(6 * MIB)
    assert lake.own("cuts") == 0


def test_a_limit_makes_memory_scarce_too() -> None:
    lake = Lake(capacity=80 * GIB, limit=DEVICE)
    lake.give(lake.take(MUCH), lake.take(MORE))
    lake.take(BLOCK)
    assert lake.own("cuts") > 0


def test_no_more_than_one_chunk_in_sixteen_is_cut() -> None:
    lake = free_lake()
    chunks = lake.stat("segment")
    with suppress(OutOfMemory):
        while True:
            lake.allocator.allocate(10 * MIB, 0)
    lake.allocator.check()
    assert 0 < lake.own("cuts") <= (chunks + lake.own("cuts")) / 16 + 1


def test_nothing_is_cut_while_its_last_use_may_be_under_way() -> None:
    lake = free_lake()
    lake.give(lake.take(BLOCK))
    cuts = lake.own("cuts")
    lake.driver.hold(0)
    lake.give(lake.take(MUCH))
    unmaps = lake.calls("unmap")
    records = lake.calls("record")
    for size in range(150, 200, 10):
        lake.give(lake.take(size * MIB))
    assert (lake.own("cuts"), lake.calls("unmap")) == (cuts, unmaps)
    assert lake.calls("record") == records + 1  # what is waited for already is not asked for again
    lake.driver.finish(0)
    lake.take(190 * MIB)
    assert lake.own("cuts") > cuts


def test_memory_that_is_always_in_use_just_before_is_not_asked_about_for_ever() -> None:
    lake = free_lake()
    few = lake.stat("segment") // 16 + 1
    for _ in range(2 * few):
        lake.driver.hold(0)
        lake.allocator.release(lake.allocator.allocate(BLOCK, 0))
        lake.driver.finish(0)
    assert lake.calls("record") <= few
    calls = sum(calls for calls, _ in lake.driver.counts().values())
    lake.allocator.release(lake.allocator.allocate(BLOCK, 0))
    assert sum(calls for calls, _ in lake.driver.counts().values()) == calls


def test_nothing_is_cut_during_a_capture() -> None:
    lake = free_lake()
    lake.take(4 * PAGE, 7)
    lake.take(BLOCK)  # from here on it is known that nothing uses the rest, on no stream
    cuts, unmaps = lake.own("cuts"), lake.calls("unmap")
    lake.allocator.begin_pool((1, 0), {7})
    lake.driver.set_capturing(7, True)
    lake.take(2 * PAGE, 7)
    lake.take(BLOCK)
    assert (lake.own("cuts"), lake.calls("unmap")) == (cuts, unmaps)
    lake.driver.set_capturing(7, False)
    lake.take(BLOCK)
    assert lake.own("cuts") > cuts


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("call", ["unmap", "release", "create", "map", "set_access", "record", "query"])
def test_a_driver_that_refuses_loses_nothing(call: str, nth: int) -> None:
    lake = free_lake()
    lake.driver.fail(call, nth, Status.out_of_memory)
    blocks = [lake.take(BLOCK), lake.take(70 * MIB)]
    lake.driver.clear_faults()
    assert lake.driver.physical_bytes >= lake.reserved
    blocks.append(lake.take(MUCH))
    lake.give(*blocks)
    lake.allocator.trim()
    lake.assert_empty()


@pytest.mark.parametrize("fault", [None, "release"])
@pytest.mark.parametrize("options", ["", "address_budget=0.2"])
@pytest.mark.parametrize("seed", range(8))
def test_no_more_memory_than_is_reserved_and_allowed(options: str, fault: str | None, seed: int) -> None:
    """Chunks that were cut have gone back to the driver, whatever else was mapped to them."""
    random = Random(seed)
    limit = 40 * GIB
    lake = Lake(options, capacity=64 * GIB, limit=limit)
    if fault:
        lake.driver.fail(fault, 1, Status.unknown, times=1 << 30)
    sizes = [random.randrange(200, 3000) * MIB + random.choice([0, 3584, MIB]) for _ in range(12)]
    live: list[int] = []
    for _ in range(1000):
        action = random.random()
        if action < 0.5 or not live:
            try:
                live.append(lake.allocator.allocate(random.choice(sizes), random.choice([0, 0, 0, 1])))
            except OutOfMemory:
                lake.give(*[live.pop(random.randrange(len(live))) for _ in range(len(live) // 3)])
        elif action < 0.97:
            lake.give(live.pop(random.randrange(len(live))))
        elif action < 0.985:
            lake.driver.hold(random.choice([0, 1]))
        else:
            lake.driver.finish(0)
            lake.driver.finish(1)
        assert lake.driver.physical_bytes <= lake.reserved <= limit
    lake.allocator.check()
