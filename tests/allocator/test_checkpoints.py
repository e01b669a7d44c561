"""Checkpoints of private pools: what was in use is in use again, at the same addresses and on the same memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmlake._core import LiveBlock, SimulatedDriver, Status, make_allocator
from gmlake.errors import DriverError, InvalidArgument, OutOfMemory

from .memory import GIB, KIB, MIB, Lake, Mark, Piece, overlap

TREE = (0, 7)
SIZES = (1, 700, 4 * KIB, 300 * KIB, MIB, MIB + 1, 3 * MIB, 16 * MIB, 70 * MIB)

Memory = dict[int, tuple[int, list[Piece]]]


def memory(lake: Lake, blocks: list[LiveBlock]) -> Memory:
    return {block.address: (block.requested, lake.physical(block.address, block.size)) for block in blocks}


@settings(max_examples=150)
@given(st.data())
def test_any_program(data: st.DataObject) -> None:
    lake = Lake(capacity=8 * GIB)
    lake.allocator.begin_pool(TREE, None)
    lake.give(lake.take(KIB))  # before that a stream may be captured without a word, and nothing is restored
    live: list[int] = []
    kept: list[tuple[list[LiveBlock], Memory]] = []
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["take", "take", "give", "keep", "restore", "record"]))
        if action == "take":
            live.append(lake.take(data.draw(st.sampled_from(SIZES)), data.draw(st.integers(0, 2))))
        elif action == "give" and live:
            lake.give(live.pop(data.draw(st.integers(0, len(live) - 1))))
        elif action == "record" and live:
            lake.allocator.record_stream(live[data.draw(st.integers(0, len(live) - 1))], 2)
        elif action == "keep":
            blocks = lake.allocator.live_blocks(TREE)
            assert sorted(block.address for block in blocks) == sorted(live)
            kept.append((blocks, memory(lake, blocks)))
        elif action == "restore" and kept:
            blocks, known = kept[data.draw(st.integers(0, len(kept) - 1))]
            released = lake.allocator.restore_pool(TREE, blocks)
            lake.allocator.check()
            assert sorted(block.address for block in released) == sorted(live)
            live = [block.address for block in blocks]
            assert memory(lake, lake.allocator.live_blocks(TREE)) == known
            assert lake.stat("requested_bytes") == sum(block.requested for block in blocks)
    lake.give(*live)
    lake.allocator.end_pool(TREE)
    lake.allocator.release_pool(TREE)
    lake.allocator.trim()
    lake.assert_empty()


def test_a_page_that_another_stream_has_since() -> None:
    """Slabs belong to a stream; a checkpoint takes them back."""
    lake = Lake()
    lake.allocator.begin_pool(TREE, None)
    spare = lake.take(KIB, 0)  # a stream keeps one slab; the second goes back
    blocks = [lake.take(MIB, 0) for _ in range(3)]
    state = lake.allocator.live_blocks(TREE)
    lake.give(*blocks)
    lake.allocator.trim()  # waits for the work on stream 0
    theirs = [lake.take(MIB, 1) for _ in range(4)]
    assert {address // (2 * MIB) for address in theirs} & {address // (2 * MIB) for address in blocks}
    released = lake.allocator.restore_pool(TREE, state)
    lake.allocator.check()
    assert {block.address for block in released} == {spare, *theirs}
    restored = {block.address: block.stream for block in lake.allocator.live_blocks(TREE)}
    assert restored == dict.fromkeys((spare, *blocks), 0)


@pytest.mark.parametrize("released_before", [True, False])
def test_a_page_is_not_taken_back_from_work_that_still_uses_it(released_before: bool) -> None:
    lake = Lake()
    lake.allocator.begin_pool(TREE, None)
    lake.take(KIB, 0)
    blocks = [lake.take(MIB, 0) for _ in range(3)]
    state = lake.allocator.live_blocks(TREE)
    lake.give(*blocks)
    lake.allocator.trim()
    theirs = [lake.take(MIB, 1) for _ in range(4)]
    assert any(overlap(lake.physical(one, MIB), lake.physical(other, MIB)) for one in theirs for other in blocks)
    lake.driver.hold(1)
    pending = Mark(lake.driver, 1)
    if released_before:
        lake.give(*theirs)
    lake.allocator.restore_pool(TREE, state)
    assert pending.reached


def test_what_cannot_be_restored_changes_nothing() -> None:
    lake = Lake()
    lake.allocator.begin_pool(TREE, None)
    lake.allocator.end_pool(TREE)
    outside = lake.take(16 * MIB)
    with pytest.raises(InvalidArgument, match=r"pool \(0, 9\) is not in use"):
        lake.allocator.live_blocks((0, 9))
    lake.allocator.begin_pool((0, 8), None)
    elsewhere = lake.take(16 * MIB)
    strange = lake.allocator.live_blocks((0, 8))
    lake.allocator.end_pool((0, 8))
    lake.allocator.begin_pool(TREE, None)
    inside = [lake.take(KIB), lake.take(3 * MIB)]
    with pytest.raises(InvalidArgument, match=r"the checkpoint of pool \(0, 7\) cannot be restored"):
        lake.allocator.restore_pool(TREE, strange)
    lake.allocator.check()
    assert {block.address for block in lake.allocator.live_blocks(TREE)} == set(inside)
    lake.driver.set_capturing(0, True)
    with pytest.raises(InvalidArgument, match="while a stream captures"):
        lake.allocator.restore_pool(TREE, [])
    lake.driver.set_capturing(0, False)
    lake.give(*inside, outside, elsewhere)


@pytest.mark.parametrize("size", [4 * KIB, 16 * MIB])
@pytest.mark.parametrize("refusal", ["a strange checkpoint", "record", "synchronize"])
def test_blocks_that_others_use_are_theirs_after_a_refusal(size: int, refusal: str) -> None:
    lake = Lake()
    lake.allocator.begin_pool((0, 8), None)
    lake.take(size, 1)
    lake.allocator.end_pool((0, 8))
    lake.allocator.begin_pool(TREE, None)
    blocks = [lake.take(size, 1) for _ in range(3)]
    memory = lake.physical(blocks[0], size)
    lake.allocator.record_stream(blocks[0], 2)
    lake.allocator.record_stream(blocks[2], 2)
    lake.driver.hold(2)
    lake.give(blocks.pop())  # in limbo
    if refusal == "a strange checkpoint":
        with pytest.raises(InvalidArgument, match="cannot be restored"):
            lake.allocator.restore_pool(TREE, lake.allocator.live_blocks((0, 8)))
    else:
        lake.driver.fail(refusal, 1, Status.unknown, times=9)
        with pytest.raises(DriverError, match="the driver refused to wait"):
            lake.allocator.restore_pool(TREE, [])
        lake.driver.clear_faults()
    lake.allocator.check()
    assert {block.address for block in lake.allocator.live_blocks(TREE)} == set(blocks)
    lake.driver.hold(2)
    lake.give(*blocks)
    assert not any(overlap(lake.physical(lake.take(size, 1), size), memory) for _ in range(3))
    assert lake.allocator.restore_pool(TREE, [])
    lake.allocator.check()


def test_uses_are_counted_and_the_last_one_frees_the_memory() -> None:
    lake = Lake()
    assert lake.allocator.pool_uses(TREE) == 0
    lake.allocator.retain_pool(TREE)
    lake.allocator.begin_pool(TREE, None)
    assert lake.allocator.pool_uses(TREE) == 2
    block = lake.take(16 * MIB)
    lake.allocator.end_pool(TREE)
    other = lake.take(16 * MIB)
    lake.give(block, other)
    lake.allocator.release_pool(TREE)
    lake.allocator.trim_pool(TREE)
    assert lake.driver.physical_bytes == 32 * MIB
    lake.allocator.release_pool(TREE)
    lake.allocator.trim_pool(TREE)
    assert lake.driver.physical_bytes == 16 * MIB  # the ordinary pool keeps its own
    assert lake.allocator.pool_uses(TREE) == 0


def test_a_shared_pool_serves_whoever_would_fail() -> None:
    lake = Lake(capacity=64 * MIB)
    lake.allocator.begin_pool(TREE, None)
    lake.give(lake.take(48 * MIB))
    lake.allocator.end_pool(TREE)
    with pytest.raises(OutOfMemory):
        lake.allocator.allocate(32 * MIB)
    lake.allocator.share_pool(TREE, True)
    lake.allocator.start_journal(10)
    block = lake.take(32 * MIB)
    assert [live.address for live in lake.allocator.live_blocks(TREE)] == [block]
    lake.allocator.share_pool(TREE, False)
    lake.give(block)
    told = [(entry.action, entry.pool) for entry in lake.allocator.journal() if entry.address == block]
    assert told == [("alloc", TREE), ("free_requested", TREE), ("free_completed", TREE)]
    with pytest.raises(OutOfMemory):
        lake.allocator.allocate(32 * MIB)


@pytest.mark.parametrize("name", ["gmlake", "caching", "expandable", "paper", "bfc", "native"])
def test_the_size_of_a_block(name: str) -> None:
    allocator = make_allocator(name, SimulatedDriver())
    small, large = allocator.allocate(700), allocator.allocate(5 * MIB)
    assert allocator.block_size(small) in range(700, 2 * MIB + 1)
    assert allocator.block_size(large) in range(5 * MIB, 20 * MIB + 1)
    assert allocator.block_size(large + 512) == allocator.block_size(0) == 0
    allocator.release(large)
    assert allocator.block_size(large) == 0
