"""The driver contract (core/driver/driver.h), clause by clause, on every driver."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from gmlake._core import CALL_KINDS, Driver, Status

OK = Status.success
REFUSED = Status.invalid_value


def made(result: tuple[Status, int]) -> int:
    """What a call handed out; it must have succeeded."""
    status, value = result
    assert status == OK
    assert value != 0
    return value


def free_bytes(driver: Driver) -> int:
    status, free, total = driver.memory_info()
    assert status == OK
    assert free <= total
    return free


def mapped_run(driver: Driver, handles: int) -> tuple[int, list[int]]:
    """A range with a spare granule at the end, and handles of one granule mapped from its start."""
    granule = driver.granularity
    at = made(driver.reserve((handles + 1) * granule))
    created = [made(driver.create(granule)) for _ in range(handles)]
    for index, handle in enumerate(created):
        assert driver.map(at + index * granule, granule, handle) == OK
    return at, created


def give_back(driver: Driver, at: int, handles: list[int]) -> None:
    """Undo mapped_run, which must leave nothing behind."""
    granule = driver.granularity
    assert driver.unmap(at, len(handles) * granule) == OK
    for handle in handles:
        assert driver.release(handle) == OK
    assert driver.free_range(at, (len(handles) + 1) * granule) == OK


class TestRanges:
    def test_ranges_are_aligned_and_apart(self, driver: Driver) -> None:
        granule = driver.granularity
        first, second = made(driver.reserve(3 * granule)), made(driver.reserve(3 * granule))
        assert first % granule == 0
        assert second % granule == 0
        assert abs(first - second) >= 3 * granule
        assert driver.free_range(first, 3 * granule) == OK
        assert driver.free_range(second, 3 * granule) == OK

    @pytest.mark.parametrize("size", [lambda g: 0, lambda g: g - 1, lambda g: g + 512])
    def test_sizes_are_multiples_of_the_granularity(self, driver: Driver, size: Callable[[int], int]) -> None:
        assert driver.reserve(size(driver.granularity)) == (REFUSED, 0)

    def test_a_range_is_freed_whole_and_once(self, driver: Driver) -> None:
        granule = driver.granularity
        at = made(driver.reserve(2 * granule))
        assert driver.free_range(at, granule) == REFUSED
        assert driver.free_range(at + granule, granule) == REFUSED
        assert driver.free_range(at, 2 * granule) == OK
        assert driver.free_range(at, 2 * granule) == REFUSED

    def test_only_an_empty_range_is_freed(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handles = mapped_run(driver, 1)
        assert driver.free_range(at, 2 * granule) == REFUSED
        give_back(driver, at, handles)


class TestHandles:
    @pytest.mark.parametrize("size", [lambda g: 0, lambda g: g - 1, lambda g: g + 512])
    def test_sizes_are_multiples_of_the_granularity(self, driver: Driver, size: Callable[[int], int]) -> None:
        assert driver.create(size(driver.granularity)) == (REFUSED, 0)

    def test_memory_is_taken_and_given_back(self, driver: Driver) -> None:
        granule = driver.granularity
        before = free_bytes(driver)
        handle = made(driver.create(4 * granule))
        assert free_bytes(driver) == before - 4 * granule
        assert driver.release(handle) == OK
        assert free_bytes(driver) == before

    def test_more_than_there_is(self, driver: Driver) -> None:
        granule = driver.granularity
        _, _, total = driver.memory_info()
        assert driver.create((total // granule + 1) * granule) == (Status.out_of_memory, 0)

    def test_a_handle_is_released_once(self, driver: Driver) -> None:
        handle = made(driver.create(driver.granularity))
        assert driver.release(handle) == OK
        assert driver.release(handle) == REFUSED

    def test_a_mapped_handle_is_released_once(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handles = mapped_run(driver, 1)
        assert driver.release(handles[0]) == OK
        assert driver.release(handles[0]) == REFUSED
        assert driver.unmap(at, granule) == OK
        assert driver.free_range(at, 2 * granule) == OK

    def test_released_memory_lives_until_its_last_mapping_goes(self, driver: Driver) -> None:
        granule = driver.granularity
        before = free_bytes(driver)
        at, handles = mapped_run(driver, 1)
        assert driver.map(at + granule, granule, handles[0]) == OK
        assert driver.release(handles[0]) == OK
        assert free_bytes(driver) == before - granule
        assert driver.unmap(at, granule) == OK
        assert free_bytes(driver) == before - granule
        assert driver.unmap(at + granule, granule) == OK
        assert free_bytes(driver) == before
        assert driver.free_range(at, 2 * granule) == OK


class TestRuns:
    """Several handles in one call are several calls, up to the first that is refused."""

    def test_a_run_is_created_and_mapped(self, driver: Driver) -> None:
        granule = driver.granularity
        before, counts = free_bytes(driver), driver.counts()
        status, handles = driver.create_run(2 * granule, 3)
        assert (status, len(set(handles))) == (OK, 3)
        assert free_bytes(driver) == before - 6 * granule
        at = made(driver.reserve(6 * granule))
        assert driver.map_run(at, 2 * granule, handles) == (OK, 3)
        assert driver.set_access(at, 6 * granule) == OK
        assert {kind: driver.counts()[kind][0] - counts[kind][0] for kind in ("create", "map")} == {
            "create": 3,
            "map": 3,
        }
        assert driver.unmap(at + 2 * granule, 2 * granule) == OK
        assert driver.map_run(at + 2 * granule, 2 * granule, handles[1:2]) == (OK, 1)
        assert driver.unmap(at, 6 * granule) == OK
        assert [driver.release(handle) for handle in handles] == [OK] * 3
        assert driver.free_range(at, 6 * granule) == OK
        assert free_bytes(driver) == before

    def test_nothing_to_do(self, driver: Driver) -> None:
        granule = driver.granularity
        at = made(driver.reserve(granule))
        assert driver.create_run(granule, 0) == (OK, [])
        assert driver.map_run(at, granule, []) == (OK, 0)
        assert driver.free_range(at, granule) == OK

    def test_what_is_created_before_the_device_is_full_stays(self, driver: Driver) -> None:
        granule = driver.granularity
        before = free_bytes(driver)
        size = before // (2 * granule) * granule - granule  # two fit, a third does not
        status, handles = driver.create_run(size, 3)
        assert (status, len(handles)) == (Status.out_of_memory, 2)
        assert free_bytes(driver) == before - 2 * size
        assert [driver.release(handle) for handle in handles] == [OK, OK]
        assert free_bytes(driver) == before

    def test_what_is_mapped_before_a_refusal_stays(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handles = mapped_run(driver, 1)
        assert driver.unmap(at, granule) == OK
        wide = made(driver.reserve(4 * granule))
        assert driver.map(wide + 2 * granule, granule, handles[0]) == OK
        counts = driver.counts()
        assert driver.map_run(wide, granule, [handles[0]] * 4) == (REFUSED, 2)
        assert driver.counts()["map"][0] - counts["map"][0] == 3  # the one that was refused, too
        assert driver.map_run(wide + 3 * granule, granule, [handles[0]] * 2) == (REFUSED, 1)  # the range ends
        assert driver.unmap(wide, 4 * granule) == OK
        assert driver.free_range(wide, 4 * granule) == OK
        assert driver.map(at, granule, handles[0]) == OK
        give_back(driver, at, handles)


class TestMapping:
    def test_one_handle_at_many_addresses(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handles = mapped_run(driver, 1)
        assert driver.map(at + granule, granule, handles[0]) == OK
        assert driver.set_access(at, 2 * granule) == OK
        assert driver.unmap(at + granule, granule) == OK
        give_back(driver, at, handles)

    def test_nothing_is_mapped_over_a_mapping(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handles = mapped_run(driver, 2)
        other, large = made(driver.create(granule)), made(driver.create(2 * granule))
        assert driver.map(at, granule, other) == REFUSED
        assert driver.map(at, granule, handles[0]) == REFUSED
        assert driver.map(at + granule, 2 * granule, large) == REFUSED
        assert driver.release(other) == OK
        assert driver.release(large) == OK
        give_back(driver, at, handles)

    def test_no_more_than_the_handle_and_on_the_grid(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handle = made(driver.reserve(4 * granule)), made(driver.create(2 * granule))
        for size in (0, 3 * granule, granule + 512):
            assert driver.map(at, size, handle) == REFUSED
        assert driver.map(at + 512, 2 * granule, handle) == REFUSED
        assert driver.release(handle) == OK
        assert driver.free_range(at, 4 * granule) == OK

    def test_only_inside_a_range(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handle = made(driver.reserve(2 * granule)), made(driver.create(2 * granule))
        assert driver.map(at + granule, 2 * granule, handle) == REFUSED
        assert driver.free_range(at, 2 * granule) == OK
        assert driver.map(at, 2 * granule, handle) == REFUSED
        assert driver.map(0, 2 * granule, handle) == REFUSED
        assert driver.release(handle) == OK

    def test_only_a_handle_that_exists(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handle = made(driver.reserve(granule)), made(driver.create(granule))
        assert driver.release(handle) == OK
        assert driver.map(at, granule, handle) == REFUSED
        assert driver.map(at, granule, 0) == REFUSED
        assert driver.free_range(at, granule) == OK

    def test_only_whole_mappings_are_unmapped(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handle = made(driver.reserve(3 * granule)), made(driver.create(2 * granule))
        assert driver.unmap(at, granule) == REFUSED
        assert driver.map(at, 2 * granule, handle) == OK
        assert driver.unmap(at, granule) == REFUSED
        assert driver.unmap(at + granule, granule) == REFUSED
        assert driver.unmap(at, 3 * granule) == REFUSED
        assert driver.unmap(at, 0) == REFUSED
        assert driver.set_access(at, 2 * granule) == OK  # nothing was unmapped by the refusals
        assert driver.unmap(at, 2 * granule) == OK
        assert driver.unmap(at, 2 * granule) == REFUSED
        assert driver.release(handle) == OK
        assert driver.free_range(at, 3 * granule) == OK

    def test_one_unmap_takes_several_mappings(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handles = mapped_run(driver, 3)
        assert driver.unmap(at + granule, 2 * granule) == OK
        assert driver.unmap(at, 3 * granule) == REFUSED
        assert driver.unmap(at, granule) == OK
        for handle in handles:
            assert driver.release(handle) == OK
        assert driver.free_range(at, 4 * granule) == OK

    def test_access_needs_whole_mappings_without_a_gap(self, driver: Driver) -> None:
        granule = driver.granularity
        at, handle = made(driver.reserve(3 * granule)), made(driver.create(2 * granule))
        assert driver.set_access(at, granule) == REFUSED
        assert driver.map(at, 2 * granule, handle) == OK
        assert driver.set_access(at, granule) == REFUSED
        assert driver.set_access(at, 3 * granule) == REFUSED
        assert driver.set_access(at, 0) == REFUSED
        assert driver.set_access(at, 2 * granule) == OK
        assert driver.unmap(at, 2 * granule) == OK
        assert driver.release(handle) == OK
        assert driver.free_range(at, 3 * granule) == OK


class TestAllocations:
    def test_blocks_are_aligned_and_apart(self, driver: Driver) -> None:
        addresses = [made(driver.allocate(size)) for size in (1, 512, 1000, 1 << 20)]
        assert all(at % 256 == 0 for at in addresses)
        assert len(set(addresses)) == len(addresses)
        for at in addresses:
            assert driver.free(at) == OK

    def test_memory_is_taken_and_given_back(self, driver: Driver) -> None:
        before = free_bytes(driver)
        at = made(driver.allocate(8 << 20))
        assert free_bytes(driver) <= before - (8 << 20)
        assert driver.free(at) == OK
        assert free_bytes(driver) == before

    def test_refusals(self, driver: Driver) -> None:
        _, _, total = driver.memory_info()
        assert driver.allocate(0) == (REFUSED, 0)
        assert driver.allocate(total + 1) == (Status.out_of_memory, 0)
        at = made(driver.allocate(4096))
        assert driver.free(at + 512) == REFUSED
        assert driver.free(at) == OK
        assert driver.free(at) == REFUSED


class TestOrder:
    def test_an_event_never_recorded_is_finished(self, driver: Driver) -> None:
        event = made(driver.create_event())
        assert driver.query(event) == OK
        assert driver.wait(0, event) == OK
        assert driver.destroy_event(event) == OK

    def test_recorded_work_finishes(self, driver: Driver) -> None:
        event = made(driver.create_event())
        for _ in range(2):  # an event may be recorded again
            assert driver.record(event, 0) == OK
            assert driver.wait(0, event) == OK
            assert driver.synchronize(event) == OK
            assert driver.query(event) == OK
        assert driver.destroy_event(event) == OK

    def test_the_device_as_a_whole_can_be_waited_for(self, driver: Driver) -> None:
        event = made(driver.create_event())
        assert driver.record(event, 0) == OK
        assert driver.synchronize_device() == OK
        assert driver.query(event) == OK
        assert driver.destroy_event(event) == OK

    def test_no_such_event(self, driver: Driver) -> None:
        for call in (driver.query, driver.synchronize, driver.destroy_event):
            assert call(0) == REFUSED
        assert driver.record(0, 0) == REFUSED
        assert driver.wait(0, 0) == REFUSED

    def test_nothing_is_captured_by_itself(self, driver: Driver) -> None:
        assert driver.is_capturing(0) == (OK, False)


class TestCounts:
    def calls(self, driver: Driver) -> dict[str, int]:
        return {kind: calls for kind, (calls, _) in driver.counts().items()}

    def test_every_kind_is_counted(self, driver: Driver) -> None:
        assert tuple(driver.counts()) == CALL_KINDS

    def test_handles_are_counted_not_calls(self, driver: Driver) -> None:
        before = self.calls(driver)
        at, handles = mapped_run(driver, 3)
        assert driver.set_access(at, 3 * driver.granularity) == OK
        give_back(driver, at, handles)
        after = self.calls(driver)
        assert {kind: after[kind] - before[kind] for kind in CALL_KINDS if after[kind] > before[kind]} == {
            "reserve": 1,
            "free_range": 1,
            "create": 3,
            "release": 3,
            "map": 3,
            "unmap": 3,
            "set_access": 1,
        }

    def test_failed_calls_count_too(self, driver: Driver) -> None:
        before = self.calls(driver)
        driver.unmap(0, driver.granularity)
        driver.create(1)
        after = self.calls(driver)
        assert after["unmap"] == before["unmap"] + 1
        assert after["create"] == before["create"] + 1


def test_any_thread_may_call(driver: Driver) -> None:
    before = free_bytes(driver)
    creates = driver.counts()["create"][0]

    def worker(_: int) -> None:
        for _ in range(50):
            at, handles = mapped_run(driver, 2)
            give_back(driver, at, handles)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(worker, range(4)))
    assert free_bytes(driver) == before
    assert driver.counts()["create"][0] == creates + 4 * 50 * 2
