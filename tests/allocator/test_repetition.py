"""Programs that repeat themselves: sBlocks make the driver superfluous, within a budget of addresses."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from gmlake._core import SimulatedDriver, make_allocator
from gmlake.errors import OutOfMemory

from .memory import GIB, MIB, Lake

LAYERS = 12
WARM = 8  # iterations in which a program may still be learned


def iteration(lake: Lake, seed: int, main: int = 0, side: int = 1, late: int = 0) -> list[int]:
    """Blocks that stay between blocks that go, then requests that only fit if the holes are joined. Where all were.

    So many of the blocks that go do so after the first of these requests.
    """
    random = Random(seed)
    kept, passing = [], []
    for layer in range(LAYERS):
        kept.append(lake.take(random.randrange(4, 13) * MIB, main))
        passing.append(lake.take(random.randrange(5, 18) * MIB, side if layer % 3 == 2 else main))
    lake.give(*passing[late:])
    large = []
    for size, stream in ((90 * MIB, main), (70 * MIB, side)):
        large.append(lake.take(size, stream))
        lake.give(*passing[:late], large[-1])
        late = 0
    random.shuffle(kept)
    lake.give(*kept)
    return [*kept, *passing, *large]


@pytest.mark.parametrize(("capacity", "limit"), [(320 * MIB, None), (64 * GIB, None), (64 * GIB, 320 * MIB)])
@pytest.mark.parametrize("seed", range(5))
def test_no_memory_call_once_the_program_repeats_itself(capacity: int, limit: int | None, seed: int) -> None:
    lake = Lake(capacity=capacity, limit=limit)
    for _ in range(WARM):
        iteration(lake, seed)
    before = lake.memory_calls()
    for _ in range(5):
        iteration(lake, seed)
    assert lake.memory_calls() == before


@pytest.mark.parametrize("seed", range(0, 10, 2))
def test_two_shapes_that_take_turns_come_to_rest_too(seed: int) -> None:
    lake = Lake(capacity=320 * MIB)
    for _ in range(WARM):
        iteration(lake, seed)
        iteration(lake, seed + 1)
    before = lake.memory_calls()
    for _ in range(3):
        iteration(lake, seed)
        iteration(lake, seed + 1)
    assert lake.memory_calls() == before


def test_a_request_gets_the_place_it_had_though_another_is_lower() -> None:
    lake = Lake(capacity=4 * GIB)

    def blocks() -> list[int]:
        return [lake.take(2 * MIB) for _ in range(200)]

    below = lake.take(256 * MIB)
    for _ in range(3):
        before = blocks()
        lake.give(*before)
    assert blocks() == before
    lake.take(256 * MIB)  # the client holds as much as ever, but a lower place is free
    lake.give(below, *before)
    after = blocks()
    assert min(after) < min(before)
    assert after[120:] == before[120:]  # a point is told by fewer requests than that


def step_with_late_releases(lake: Lake, order: Random) -> list[int]:
    """The same requests in every step; the blocks of a layer go while the next one is made, in another order each time.
    Where all were."""
    sizes = Random(1)
    places: list[int] = []
    passing: list[int] = []
    for _ in range(60):
        order.shuffle(passing)
        layer = []
        for _ in range(6):
            layer.append(lake.take(sizes.randrange(4, 40) * MIB))
            lake.give(*(passing.pop() for _ in range(min(order.randrange(3), len(passing)))))
        lake.give(*passing)
        places += layer
        passing = layer
    lake.give(*passing)
    return places


@pytest.mark.parametrize("seed", range(4))
def test_a_program_is_followed_though_it_releases_in_another_order_every_time(seed: int) -> None:
    lake = Lake(capacity=4 * GIB)
    order = Random(seed)
    steps = [step_with_late_releases(lake, order) for _ in range(8)]
    again = [
        one == other for step, next_step in pairwise(steps[3:]) for one, other in zip(step, next_step, strict=True)
    ]
    assert sum(again) > len(again) / 3  # where a block goes later than it did, another place must do
    lake.allocator.check()


def test_places_are_forgotten_with_the_memory_they_were_in() -> None:
    lake = Lake(capacity=320 * MIB)
    for _ in range(WARM):
        iteration(lake, 1)
        lake.allocator.trim()
        lake.allocator.check()
    assert lake.stat("reserved_bytes") == 0


def test_a_stitched_block_is_there_again() -> None:
    lake = Lake(capacity=320 * MIB)
    for _ in range(WARM):
        iteration(lake, 1)
    hits, stitches = lake.own("sblock_hits"), lake.own("stitches")
    iteration(lake, 1)
    assert lake.own("sblock_hits") > hits
    assert lake.own("stitches") == stitches


def test_a_part_that_is_the_same_in_every_step_is_no_reason_for_sblocks() -> None:
    """A step of another length finds another layout, and sBlocks would be made for nothing."""
    lake = Lake(capacity=640 * MIB)
    sizes = Random(1)
    optimizer = [sizes.randrange(2, 6) * MIB for _ in range(100)]
    for step in range(20):
        for part in range(20):
            iteration(lake, 20 * step + part)
        blocks = [lake.take(size) for size in optimizer]
        lake.give(*blocks[::2], lake.take(150 * MIB), *blocks[1::2])
    assert lake.own("stitches") > 0
    assert lake.own("sblocks") == 0


def test_a_loop_within_a_step_is_no_reason_for_sblocks() -> None:
    """Nothing but the loop is met again: the next step has another layout."""
    lake = Lake(capacity=360 * MIB)
    random = Random(1)
    for _ in range(20):
        blocks = [lake.take(random.randrange(4, 18) * MIB) for _ in range(24)]
        for _ in range(40):
            lake.give(*[lake.take(size * MIB) for size in (3, 4, 5, 4)])
        lake.give(*blocks[::2])
        lake.give(lake.take(random.randrange(80, 110) * MIB))
        lake.give(*blocks[1::2])
    assert lake.own("stitches") > 0
    assert lake.own("sblocks") == 0


@pytest.mark.parametrize("seed", range(5))
def test_an_sblock_of_which_a_part_is_in_use_is_mended(seed: int) -> None:
    lake = Lake(limit=320 * MIB)
    for _ in range(WARM):
        places = iteration(lake, seed)
    sblocks, mends, maps = lake.own("sblocks"), lake.own("mends"), lake.calls("map")
    assert iteration(lake, seed, late=1) == places
    assert lake.own("mends") == mends + 1
    assert lake.own("sblocks") == sblocks
    assert 0 < lake.calls("map") - maps < 90 / 2 / 2  # of the pages of the first request not even half


def test_an_sblock_is_not_mended_while_its_last_use_may_be_under_way() -> None:
    lake = Lake(limit=320 * MIB)
    for _ in range(WARM):
        iteration(lake, 1)
    lake.driver.hold(0)
    iteration(lake, 1)
    mends, unmaps = lake.own("mends"), lake.calls("unmap")
    iteration(lake, 1, late=1)
    assert (lake.own("mends"), lake.calls("unmap")) == (mends, unmaps)


@pytest.mark.parametrize("budget", [0.0, 0.5, 1.0])
def test_idle_sblocks_go_when_their_addresses_exceed_the_budget(budget: float) -> None:
    lake = Lake(f"address_budget={budget}", capacity=256 * MIB)
    sizes = [(80 + 4 * step) * MIB for step in range(8)]
    for _ in range(4):
        blocks = [lake.take(8 * MIB) for _ in range(32)]
        lake.give(*blocks[::2])
        for size in sizes:
            address = lake.take(size)
            stitched = [segment for segment in lake.allocator.segments() if segment.stitched]
            in_use = sum(s.size for s in stitched if s.address in (address, *blocks[1::2]))
            allowed = budget * lake.stat("reserved_bytes")
            assert sum(segment.size for segment in stitched) <= max(allowed, in_use)
            lake.give(address)
        lake.give(*blocks[1::2])
    assert lake.allocator.statistics()["gmlake"]["sblocks"]["freed"] > 0


def test_addresses_and_mappings_stay_bounded_however_sizes_vary() -> None:
    lake = Lake(capacity=256 * MIB)
    random = Random(1)
    peak = []
    for _ in range(6):
        for _ in range(15):
            blocks = [lake.take(random.randrange(3, 12) * MIB) for _ in range(24)]
            lake.give(*blocks[::2])
            lake.give(lake.take(random.randrange(60, 100) * MIB))
            lake.give(*blocks[1::2])
        peak.append(lake.own("mapped_bytes"))
    budget = 12  # the option address_budget, by default
    assert max(peak) <= (budget + 1) * lake.stat("reserved_bytes") + 256 * MIB


def test_giving_everything_back_takes_one_event_a_stream_for_all_sblocks() -> None:
    lake = Lake(capacity=40 * GIB)
    for step in range(400):
        stream = step % 4
        blocks = [lake.take(32 * MIB, stream) for _ in range(120)]
        lake.give(*blocks[::2])
        lengths = [33 + 2 * ((step // 3 * 7 + k) % 60) for k in range(8)]
        lake.give(*[lake.take(length * MIB, stream) for length in lengths], *blocks[1::2])
    assert lake.own("sblocks") > 20
    events = lake.driver.events
    lake.allocator.trim()
    assert lake.own("sblocks") == 0
    assert lake.driver.events <= events + 4


def test_spare_slabs_serve_a_large_request_before_sblocks_go() -> None:
    lake = Lake(limit=320 * MIB)
    for _ in range(WARM):
        iteration(lake, 1)
    sblocks = lake.own("sblocks")
    lake.give(*[lake.take(MIB) for _ in range(40)])
    lake.take(310 * MIB)
    assert lake.own("sblocks") == sblocks > 0


def test_a_place_that_was_another_requests_may_end_beyond_the_arena() -> None:
    """Places are known by a part of a request only: two sizes may look alike."""
    alike = 11_730_592_256
    assert len({size * 0x9E3779B97F4A7C15 % 2**64 >> 40 for size in (GIB, alike)}) == 1
    allocator = make_allocator("gmlake", SimulatedDriver(capacity=80 * GIB, address_space=69 * GIB))
    allocator.allocate(63 * GIB)
    for _ in range(200):
        allocator.release(allocator.allocate(GIB))  # at the arena's end
    with pytest.raises(OutOfMemory):
        allocator.allocate(alike)


def crowded_step(seed: int, requests: int = 1500, held: int = 27 * GIB) -> list[tuple[int, int]]:
    """Of a program that always holds nearly all it ever holds: (request, its size), or 0 where it is released."""
    random = Random(seed)
    step: list[tuple[int, int]] = []
    live: list[tuple[int, int]] = []
    for request in range(requests):
        largest = random.choices((24, 200, 1500), weights=(70, 28, 2))[0]
        size = random.randrange(1, largest * MIB)
        while sum(length for _, length in live) + size > held:
            gone, _ = live.pop(random.randrange(len(live)))
            step.append((gone, 0))
        step.append((request, size))
        live.append((request, size))
    return [*step, *((request, 0) for request, _ in live)]


@pytest.mark.parametrize("seeds", [(0,), (3,), (0, 3)])
def test_a_step_that_needs_hundreds_of_sblocks_comes_to_rest_in_every_phase(seeds: tuple[int, ...]) -> None:
    lake = Lake(capacity=80 * GIB)
    for seed in seeds:
        step = crowded_step(seed)
        for _ in range(30):
            before = lake.memory_calls()
            at: dict[int, int] = {}
            for request, size in step:
                if size:
                    at[request] = lake.take(size)
                else:
                    lake.give(at[request])
        assert lake.memory_calls() == before
