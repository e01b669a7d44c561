"""What only the simulated driver has: capacity, addresses, modelled time, faults and held streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gmlake._core import CALL_KINDS, SimulatedDriver, Status, cost_tables
from gmlake.errors import InvalidArgument

OK = Status.success
GRANULE = 2 << 20
TABLES = {table.name: table for table in cost_tables()}


def microseconds(driver: SimulatedDriver, kind: str) -> float:
    return driver.counts()[kind][1]


def event_on(driver: SimulatedDriver, stream: int) -> int:
    _, event = driver.create_event()
    assert driver.record(event, stream) == OK
    return event


class TestMemory:
    def test_capacity_is_shared_by_handles_and_allocations(self) -> None:
        driver = SimulatedDriver(capacity=2 * GRANULE)
        assert driver.create(GRANULE)[0] == OK
        assert driver.allocate(GRANULE - 512)[0] == OK
        assert driver.allocate(513)[0] == Status.out_of_memory
        assert driver.allocate(1)[0] == OK
        assert driver.physical_bytes == 2 * GRANULE
        assert driver.memory_info() == (OK, 0, 2 * GRANULE)

    def test_addresses_are_finite_and_recycled(self) -> None:
        driver = SimulatedDriver(address_space=4 * GRANULE)
        _, first = driver.reserve(GRANULE)
        _, second = driver.reserve(2 * GRANULE)
        _, third = driver.reserve(GRANULE)
        assert (second, third) == (first + GRANULE, first + 3 * GRANULE)
        assert driver.reserve(GRANULE)[0] == Status.out_of_memory
        assert driver.free_range(first, GRANULE) == OK
        assert driver.free_range(second, 2 * GRANULE) == OK
        assert driver.reserve(3 * GRANULE) == (OK, first)

    def test_allocations_take_the_lowest_hole(self) -> None:
        driver = SimulatedDriver()
        addresses = [driver.allocate(4096)[1] for _ in range(4)]
        assert addresses == sorted(addresses)
        assert driver.free(addresses[2]) == OK
        assert driver.free(addresses[0]) == OK
        assert driver.allocate(8192)[1] > addresses[3]
        assert driver.allocate(512)[1] == addresses[0]
        assert driver.allocate(4096)[1] == addresses[2]

    def test_recorded_addresses_are_handed_out(self) -> None:
        driver = SimulatedDriver()
        recorded = [0x7F0000000000, 0x7F0000001000, 0]
        driver.hand_out([*recorded, 0x7F0000000200])
        assert [driver.allocate(4096)[1] for _ in range(2)] == recorded[:2]
        chosen = [driver.allocate(4096)[1] for _ in range(3)]
        assert not set(chosen) & {0, 0x7F0000000200}
        assert driver.free(recorded[0]) == OK
        driver.hand_out([recorded[0]])
        assert driver.allocate(4096) == (OK, recorded[0])

    def test_recorded_ranges_are_handed_out(self) -> None:
        driver = SimulatedDriver()
        recorded = [0x7F0000400000, 0x7F0000000000]
        driver.hand_out_ranges([*recorded, recorded[0] - GRANULE, 0, recorded[0] + 4096])
        assert [driver.reserve(2 * GRANULE)[1] for _ in range(2)] == recorded
        chosen = [driver.reserve(2 * GRANULE)[1] for _ in range(4)]
        assert len(set(chosen)) == 4
        assert min(chosen) > max(recorded)
        for at in (*recorded, *chosen):
            assert driver.free_range(at, 2 * GRANULE) == OK
        driver.hand_out_ranges([recorded[0]])
        assert driver.reserve(2 * GRANULE) == (OK, recorded[0])

    def test_a_handle_is_mapped_whole(self) -> None:
        driver = SimulatedDriver()
        _, at = driver.reserve(2 * GRANULE)
        _, handle = driver.create(2 * GRANULE)
        assert driver.map(at, GRANULE, handle) == Status.invalid_value
        assert driver.map(at, 2 * GRANULE, handle) == OK

    def test_access_and_handles_can_be_looked_up(self) -> None:
        driver = SimulatedDriver()
        _, at = driver.reserve(3 * GRANULE)
        _, handle = driver.create(GRANULE)
        assert driver.map(at + GRANULE, GRANULE, handle) == OK
        assert not driver.accessible(at + GRANULE, 1)
        assert driver.set_access(at + GRANULE, GRANULE) == OK
        assert driver.accessible(at + GRANULE, GRANULE)
        assert not driver.accessible(at + GRANULE - 1, 2)
        assert not driver.accessible(at + GRANULE, GRANULE + 1)
        assert [driver.handle_at(at + offset) for offset in (0, GRANULE, 2 * GRANULE - 1, 2 * GRANULE)] == [
            0,
            handle,
            handle,
            0,
        ]
        assert (driver.handles, driver.mappings, driver.ranges) == (1, 1, 1)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: SimulatedDriver(granularity=1000), "granularity of 1000 bytes"),
            (lambda: SimulatedDriver(granularity=0), "granularity of 0 bytes"),
            (lambda: SimulatedDriver(address_space=512), "address space of 512 bytes"),
            (lambda: SimulatedDriver(capacity=-5), "-5 is no capacity"),
            (lambda: SimulatedDriver(cost_table="h100"), "unknown cost table 'h100'; the tables are a100"),
            (lambda: SimulatedDriver().reserve(-1), "-1 is no size"),
            (lambda: SimulatedDriver().free(1 << 64), "18446744073709551616 is no address"),
            (lambda: SimulatedDriver().fail("create", 0), "call number 0"),
            (lambda: SimulatedDriver().fail("malloc", 1), "'malloc' is no call of the driver"),
        ],
    )
    def test_bad_input_is_named(self, make: Callable[[], object], words: str) -> None:
        with pytest.raises(InvalidArgument, match=words):
            make()


class TestCosts:
    def test_presets(self) -> None:
        assert list(TABLES) == ["a100", "a100-batched", "small-card", "free"]
        assert all(table.source for table in TABLES.values())
        assert TABLES["a100"].access_further == TABLES["a100"].access
        assert TABLES["a100-batched"].access_further < TABLES["a100"].access
        assert TABLES["small-card"].create < TABLES["a100"].create

    @pytest.mark.parametrize("name", list(TABLES))
    @pytest.mark.parametrize("granules", [1, 8])
    def test_modelled_time_follows_the_table(self, name: str, granules: int) -> None:
        table, driver = TABLES[name], SimulatedDriver(cost_table=name)
        size, further = granules * GRANULE, 2 * granules - 2
        _, at = driver.reserve(3 * size)
        for index in range(3):
            _, handle = driver.create(size)
            assert driver.map(at + index * size, size, handle) == OK
            assert driver.release(handle) == OK
        assert driver.set_access(at, 3 * size) == OK
        assert driver.unmap(at, 3 * size) == OK
        assert driver.free_range(at, 3 * size) == OK
        _, block = driver.allocate(size)
        assert driver.free(block) == OK
        expected = {
            "reserve": table.reserve,
            "create": 3 * (table.create + further * table.create_per_mib),
            "map": 3 * table.map,
            "release": 3 * table.release,
            "set_access": table.access + 2 * table.access_further + 3 * further * table.access_per_mib,
            "unmap": 3 * table.unmap,
            "free_range": table.free_range,
            "allocate": table.allocate + 2 * granules * table.allocate_per_mib,
            "free": table.free,
        }
        assert {kind: microseconds(driver, kind) for kind in expected} == pytest.approx(expected)

    def test_failed_calls_take_no_time(self) -> None:
        driver = SimulatedDriver(capacity=GRANULE)
        assert driver.create(2 * GRANULE)[0] == Status.out_of_memory
        assert driver.reserve(1)[0] == Status.invalid_value
        assert driver.unmap(0, GRANULE) == Status.invalid_value
        assert sum(time for _, time in driver.counts().values()) == 0
        assert sum(calls for calls, _ in driver.counts().values()) == 3


class TestFaults:
    def test_the_nth_call_fails_and_changes_nothing(self) -> None:
        driver = SimulatedDriver()
        driver.fail("create", 2, times=2)
        outcomes = [driver.create(GRANULE)[0] for _ in range(5)]
        assert outcomes == [OK, Status.out_of_memory, Status.out_of_memory, OK, OK]
        assert driver.handles == 3

    def test_in_a_run_every_handle_is_a_call(self) -> None:
        driver = SimulatedDriver()
        driver.fail("create", 3)
        driver.fail("map", 2, times=2)
        status, handles = driver.create_run(GRANULE, 5)
        assert (status, len(handles)) == (Status.out_of_memory, 2)
        assert len(driver.create_run(GRANULE, 2)[1]) == 2
        _, at = driver.reserve(4 * GRANULE)
        outcomes = [driver.map_run(at + done * GRANULE, GRANULE, handles)[1] for done in (0, 1, 1)]
        assert outcomes == [1, 0, 2]
        assert (driver.handles, driver.mappings) == (4, 3)

    def test_every_kind_can_fail(self) -> None:
        driver = SimulatedDriver()
        for kind in CALL_KINDS:
            driver.fail(kind, 1, Status.deinitialized)
        results = [
            driver.reserve(GRANULE)[0],
            driver.free_range(0, 0),
            driver.create(GRANULE)[0],
            driver.release(0),
            driver.map(0, 0, 0),
            driver.unmap(0, 0),
            driver.set_access(0, 0),
            driver.allocate(1)[0],
            driver.free(0),
            driver.create_event()[0],
            driver.destroy_event(0),
            driver.record(0, 0),
            driver.query(0),
            driver.wait(0, 0),
            driver.synchronize(0),
        ]
        assert results == [Status.deinitialized] * len(CALL_KINDS)
        assert (driver.physical_bytes, driver.ranges, driver.events) == (0, 0, 0)

    def test_faults_can_be_cleared(self) -> None:
        driver = SimulatedDriver()
        driver.fail("reserve", 1, times=100)
        driver.clear_faults()
        assert driver.reserve(GRANULE)[0] == OK


class TestTime:
    def test_work_finishes_at_once_unless_held(self) -> None:
        driver = SimulatedDriver()
        before = event_on(driver, 1)
        driver.hold(1)
        held, elsewhere = event_on(driver, 1), event_on(driver, 2)
        assert [driver.query(event) for event in (before, held, elsewhere)] == [OK, Status.not_ready, OK]
        driver.finish(1)
        assert driver.query(held) == OK
        assert driver.query(event_on(driver, 1)) == OK

    def test_what_waits_for_held_work_is_held_with_it(self) -> None:
        driver = SimulatedDriver()
        driver.hold(1)
        awaited = event_on(driver, 1)
        earlier = event_on(driver, 2)
        assert driver.wait(2, awaited) == OK
        second = event_on(driver, 2)
        assert driver.wait(3, second) == OK
        third = event_on(driver, 3)
        states = [driver.query(event) for event in (earlier, second, third)]
        assert states == [OK, Status.not_ready, Status.not_ready]
        driver.finish(2)
        assert driver.query(second) == Status.not_ready
        driver.finish(1)
        assert [driver.query(event) for event in (second, third)] == [OK, OK]

    def test_streams_may_wait_for_each_other_in_turn(self) -> None:
        driver = SimulatedDriver()
        driver.hold(1)
        driver.hold(2)
        event = event_on(driver, 1)
        for stream in (2, 1, 2, 1):
            assert driver.wait(stream, event) == OK
            event = event_on(driver, stream)
        driver.finish(1)
        assert driver.query(event) == Status.not_ready
        driver.finish(2)
        assert driver.query(event) == OK

    def test_a_wait_keeps_its_meaning_when_the_event_moves_on(self) -> None:
        driver = SimulatedDriver()
        driver.hold(1)
        event = event_on(driver, 1)
        assert driver.wait(2, event) == OK
        assert driver.record(event, 3) == OK
        assert driver.query(event) == OK
        waiting = event_on(driver, 2)
        assert driver.destroy_event(event) == OK
        assert driver.query(waiting) == Status.not_ready
        driver.finish(1)
        assert driver.query(waiting) == OK

    def test_the_device_is_idle_when_every_stream_is(self) -> None:
        driver = SimulatedDriver()
        for stream in (0, 1):
            driver.hold(stream)
        events = [driver.create_event()[1] for _ in range(2)]
        for stream, event in enumerate(events):
            assert driver.record(event, stream) == OK
        driver.set_capturing(1, True)
        assert driver.synchronize_device() == Status.not_supported
        driver.set_capturing(1, False)
        assert driver.synchronize_device() == OK
        assert [driver.query(event) for event in events] == [OK, OK]

    def test_synchronize_finishes_what_it_waits_for_and_no_more(self) -> None:
        driver = SimulatedDriver()
        driver.hold(1)
        first = event_on(driver, 1)
        assert driver.wait(2, first) == OK
        second, later = event_on(driver, 2), event_on(driver, 1)
        assert driver.synchronize(second) == OK
        assert [driver.query(event) for event in (first, second, later)] == [OK, OK, Status.not_ready]

    def test_events_are_destroyed_once(self) -> None:
        driver = SimulatedDriver()
        event = event_on(driver, 1)
        assert driver.events == 1
        assert driver.destroy_event(event) == OK
        assert driver.destroy_event(event) == Status.invalid_value
        assert driver.query(event) == Status.invalid_value
        assert driver.events == 0

    def test_capture_is_a_property_of_a_stream(self) -> None:
        driver = SimulatedDriver()
        driver.set_capturing(7, True)
        assert driver.is_capturing(7) == (OK, True)
        assert driver.is_capturing(8) == (OK, False)
        driver.set_capturing(7, False)
        assert driver.is_capturing(7) == (OK, False)

    def test_an_event_of_a_capture_draws_in_who_waits_and_tells_nothing(self) -> None:
        driver = SimulatedDriver()
        _, event = driver.create_event()
        _, outside = driver.create_event()
        assert driver.record(outside, 8) == OK
        driver.capture_at_next_call(7)
        assert driver.is_capturing(7) == (OK, False)
        assert driver.record(event, 7) == OK
        assert driver.is_capturing(7) == (OK, True)
        assert [driver.query(event), driver.synchronize(event)] == [Status.unknown] * 2
        assert driver.wait(7, outside) == Status.unknown
        assert driver.wait(8, event) == OK
        assert driver.is_capturing(8) == (OK, True)
        for stream in (7, 8):
            driver.set_capturing(stream, False)
        assert driver.query(event) == Status.unknown
        assert driver.record(event, 7) == OK
        assert driver.query(event) == OK
