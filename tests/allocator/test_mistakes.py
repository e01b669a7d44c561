"""Bad input: an exception that names the value and what was expected, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gmlake._core import Allocator, SimulatedDriver, make_allocator
from gmlake.errors import DriverError, InvalidArgument, OutOfMemory

from .memory import GIB, KIB, MIB, TIB, Lake

Attempt = Callable[[Allocator], object]


@pytest.fixture
def lake() -> Lake:
    """Small, large, stitched and joined blocks in use, and others that were released."""
    lake = Lake(capacity=256 * MIB)
    for _ in range(4):
        blocks = [lake.take(8 * MIB, number % 2) for number in range(32)]
        lake.give(*blocks[::2])
        lake.give(lake.take(100 * MIB))
        lake.give(*blocks[1::2])
    for number in range(10):
        lake.take(8 * MIB, number % 3)
    lake.take(100 * MIB)
    lake.take(KIB)
    return lake


def assert_refused(lake: Lake, attempt: Attempt, error: type[Exception], message: str) -> None:
    statistics, shown = lake.allocator.statistics(), layout(lake)
    with pytest.raises(error, match=message):
        attempt(lake.allocator)
    lake.allocator.check()
    assert lake.allocator.statistics() == statistics
    assert layout(lake) == shown


def layout(lake: Lake) -> list[tuple[int, int, str]]:
    return [(b.address, b.size, b.state) for segment in lake.allocator.segments() for b in segment.blocks]


@pytest.mark.parametrize("size", [-1, 128 * TIB + 1, 2**63, 2**64 - 1, 2**64, 10**30])
def test_sizes_that_cannot_be(lake: Lake, size: int) -> None:
    assert_refused(lake, lambda allocator: allocator.allocate(size), InvalidArgument, str(size))


@pytest.mark.parametrize("size", [257 * MIB, 2 * TIB, 3 * TIB, 4 * TIB, 5 * TIB, 128 * TIB])
def test_sizes_that_no_device_has(lake: Lake, size: int) -> None:
    with pytest.raises(OutOfMemory, match="asked"):
        lake.allocator.allocate(size)
    lake.allocator.check()


def test_nothing_is_nothing(lake: Lake) -> None:
    before = lake.allocator.statistics()
    assert lake.allocator.allocate(0) == 0
    lake.allocator.release(0)
    lake.allocator.record_stream(0, 1)
    assert lake.allocator.statistics() == before


def test_only_the_start_of_a_block_in_use_is_an_address(lake: Lake) -> None:
    """Interior addresses, free ones, the parts that a block was joined from, the homes of stitched memory."""
    in_use = {b.address for s in lake.allocator.segments() for b in s.blocks if b.state == "active_allocated"}
    wrong = set()
    for segment in lake.allocator.segments():
        for block in segment.blocks:
            inside = {block.address, block.address + 1, block.address + 512, block.address + block.size // 1024 * 512}
            wrong |= inside | set(range(block.address, block.address + block.size, 2 * MIB))
    wrong |= {1, 512, 2**47, 2**64 - 512, *(address - 512 for address in in_use)}
    wrong -= in_use
    for address in wrong:
        calls: list[Attempt] = [
            lambda allocator, at=address: allocator.release(at),  # type: ignore[misc]
            lambda allocator, at=address: allocator.record_stream(at, 1),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(InvalidArgument, match=str(address)):
                call(lake.allocator)
    lake.allocator.check()
    for address in in_use:
        lake.give(address)


@pytest.mark.parametrize("size", [KIB, 8 * MIB])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_block_is_released_once(lake: Lake, size: int, elsewhere: bool) -> None:
    block = lake.take(size)
    if elsewhere:
        lake.driver.hold(5)
        lake.allocator.record_stream(block, 5)
    lake.give(block)
    assert_refused(lake, lambda allocator: allocator.release(block), InvalidArgument, str(block))
    assert_refused(lake, lambda allocator: allocator.record_stream(block, 1), InvalidArgument, str(block))


@pytest.mark.parametrize("number", [-1, 2**64])
def test_numbers_that_are_no_addresses_or_streams(lake: Lake, number: int) -> None:
    attempts: list[tuple[str, Attempt]] = [
        ("address", lambda allocator: allocator.release(number)),
        ("stream", lambda allocator: allocator.allocate(512, number)),
        ("stream", lambda allocator: allocator.record_stream(0, number)),
        ("limit", lambda allocator: allocator.set_limit(number)),
    ]
    for meaning, attempt in attempts:
        assert_refused(lake, attempt, InvalidArgument, f"{number} is no {meaning}")


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ("colour=blue", "colour"),
        ("target=0", "0"),
        ("target=1.5", "1.5"),
        ("target=much", "much"),
        ("target=nan", "nan"),
        ("chunk_limit=3MiB", "3MiB"),
        ("chunk_limit=0", "0"),
        ("chunk_limit=-2MiB", "-2MiB"),
        ("small_limit=2MiB", "2MiB"),
        ("small_limit=0", "0"),
        ("address_budget=-1", "-1"),
        ("address_budget=inf", "inf"),
        ("target", "target"),
    ],
)
def test_options_that_cannot_be(options: str, value: str) -> None:
    driver = SimulatedDriver()
    with pytest.raises(InvalidArgument, match=value):
        make_allocator(f"gmlake:{options}", driver)
    assert driver.ranges == 0


def test_a_device_that_maps_in_other_steps() -> None:
    with pytest.raises(DriverError, match=r"3.00 MiB.*2 MiB"):
        make_allocator("gmlake", SimulatedDriver(granularity=3 * MIB))


def test_a_device_that_maps_in_finer_steps_at_odd_addresses() -> None:
    """Somebody else has addresses of the same device, so ours do not begin at a round number."""
    lake = Lake()
    lake.driver = SimulatedDriver(capacity=256 * MIB, granularity=64 * KIB)
    lake.driver.reserve(64 * KIB)
    lake.allocator = make_allocator("gmlake", lake.driver)
    for _ in range(4):
        blocks = [lake.take(8 * MIB) for _ in range(32)]
        lake.give(*blocks[::2])
        lake.give(lake.take(100 * MIB), lake.take(KIB))
        lake.give(*blocks[1::2])
    lake.allocator.trim()
    lake.assert_empty()


def test_too_few_addresses_for_an_allocator_or_a_pool() -> None:
    with pytest.raises(DriverError, match="addresses"):
        make_allocator("gmlake", SimulatedDriver(address_space=64 * GIB))
    lake = Lake()
    lake.driver = SimulatedDriver(address_space=4 * TIB + 260 * GIB)
    lake.allocator = make_allocator("gmlake", lake.driver)
    with pytest.raises(OutOfMemory, match="addresses"):
        lake.allocator.begin_pool((0, 1))
    lake.take(4 * MIB)


def test_where_addresses_are_scarce_pools_make_do_with_fewer() -> None:
    lake = Lake()
    lake.driver = SimulatedDriver(address_space=TIB)
    lake.allocator = make_allocator("gmlake", lake.driver)
    for number in range(1, 4):
        lake.allocator.begin_pool((0, number))
        lake.take(4 * MIB)
        lake.take(4 * KIB)
        lake.allocator.end_pool((0, number))
    lake.give(lake.take(GIB))
