"""Random programs on every rival, checked after every step against what the client knows."""

from __future__ import annotations

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gmlake.errors import DriverError, InvalidArgument, OutOfMemory

from .bench import GIB, KIB, MIB, Bench

SPECS = (
    "native",
    "caching",
    "caching:max_split_size_mb=20,roundup_power2_divisions=4,ties=address",
    "caching:garbage_collection_threshold=0.3",
    "expandable",
    "bfc",
    "paper:frag_limit=2MiB",
    "paper:frag_limit=2MiB,gc=100MiB,realloc=true",
    "paper:frag_limit=16MiB,defrag_level=1,reuse_limit=2",
)
CHUNK = 2 * MIB
STREAMS = st.integers(0, 3)
POOLS = st.sampled_from([(0, 1), (1, 0), (1, 1)])
SIZES = st.one_of(
    st.integers(1, 2 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 2 * MIB, 10 * MIB, 20 * MIB]),
    st.integers(2 * MIB, 48 * MIB),
)


class Program(RuleBasedStateMachine):
    """A client of one allocator; `spec` is set by the test."""

    spec = ""

    @initialize(capacity=st.sampled_from([None, 96 * MIB, 200 * MIB]))
    def start(self, capacity: int | None) -> None:
        self.bench = Bench(self.spec, capacity)
        self.live: dict[int, int] = {}
        self.uses: dict[tuple[int, int], int] = {}
        self.open: list[tuple[int, int]] = []

    @rule(size=SIZES, stream=STREAMS)
    def allocate(self, size: int, stream: int) -> None:
        with contextlib.suppress(OutOfMemory):
            address = self.bench.allocator.allocate(size, stream)
            assert address not in self.live
            self.live[address] = size

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.live)))
        self.bench.allocator.release(address)
        del self.live[address]
        with pytest.raises(InvalidArgument):
            self.bench.allocator.release(address)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), stream=STREAMS)
    def record_stream(self, data: st.DataObject, stream: int) -> None:
        self.bench.allocator.record_stream(data.draw(st.sampled_from(sorted(self.live))), stream)

    @rule(stream=STREAMS, held=st.booleans())
    def work(self, stream: int, held: bool) -> None:
        (self.bench.driver.hold if held else self.bench.driver.finish)(stream)

    @rule(pool=POOLS, stream=STREAMS)
    def begin_pool(self, pool: tuple[int, int], stream: int) -> None:
        if pool not in self.open:
            self.bench.allocator.begin_pool(pool, {stream})
            self.open.append(pool)
            self.uses[pool] = self.uses.get(pool, 0) + 1

    @precondition(lambda self: self.open)
    @rule()
    def end_pool(self) -> None:
        self.bench.allocator.end_pool(self.open.pop())

    @rule(pool=POOLS)
    def release_pool(self, pool: tuple[int, int]) -> None:
        if pool not in self.open and self.uses.get(pool, 0) > 0:
            self.bench.allocator.release_pool(pool)
            self.uses[pool] -= 1

    @rule(limit=st.integers(40 * MIB, 300 * MIB))
    def set_limit(self, limit: int) -> None:
        self.bench.allocator.set_limit(limit)

    @rule()
    def trim(self) -> None:
        self.bench.allocator.trim()

    @invariant()
    def books_balance(self) -> None:
        bench = self.bench
        bench.allocator.check()
        slack = 512 * len(bench.allocator.segments()) if self.spec.startswith("bfc") else 0
        assert 0 <= bench.driver.physical_bytes - bench.reserved <= slack
        assert bench.stat("requested_bytes") >= sum(self.live.values())
        assert bench.stat("allocated_bytes") <= bench.stat("active_bytes") <= bench.reserved
        spans = sorted(self.live.items())
        for (address, size), (following, _) in itertools.pairwise(spans):
            assert address + size <= following

    @invariant()
    def no_chunk_serves_two(self) -> None:
        """Stitched blocks have addresses of their own: only the memory behind them tells."""
        if not self.spec.startswith("paper"):
            return
        large = [address for address, size in self.live.items() if size > MIB]
        chunks = [self.bench.driver.handle_at(at) for a in large for at in range(a, a + self.live[a], CHUNK)]
        assert 0 not in chunks
        assert len(chunks) == len(set(chunks))
        assert all(self.bench.driver.accessible(a, self.live[a]) for a in large)

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        for stream in range(4):
            self.bench.driver.finish(stream)
        self.bench.give(*self.live)
        for pool in reversed(self.open):
            self.bench.allocator.end_pool(pool)
        for pool, uses in self.uses.items():
            for _ in range(uses):
                self.bench.allocator.release_pool(pool)
        self.bench.allocator.trim()
        self.bench.allocator.check()
        assert_holds_nothing(self.bench)
        # Expandable segments keep addresses for which memory ran out before they held any, as in PyTorch.
        assert self.bench.driver.ranges == 0 or self.spec.startswith("expandable")


def assert_holds_nothing(bench: Bench) -> None:
    driver = bench.driver
    assert (driver.physical_bytes, driver.handles, driver.mappings, driver.events) == (0, 0, 0, 0)


@pytest.mark.parametrize("spec", SPECS)
def test_random_programs(spec: str) -> None:
    machine = type("Program", (Program,), {"spec": spec})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=60))  # type: ignore[no-untyped-call]


def short_program(bench: Bench, random: Random, steps: int) -> list[int]:
    """Runs random steps, of which some may fail; what is live at the end."""
    live: list[int] = []
    for _ in range(steps):
        with contextlib.suppress(OutOfMemory, DriverError):
            if live and random.random() < 0.45:
                index = random.randrange(len(live))
                if random.random() < 0.3:
                    bench.allocator.record_stream(live[index], random.randrange(3))
                bench.allocator.release(live[index])
                live.pop(index)
            else:
                size = random.choice((KIB, 3 * MIB, random.randrange(2 * MIB, 40 * MIB)))
                live.append(bench.allocator.allocate(size, random.randrange(2)))
        bench.allocator.check()
    return live


FAULTS = (
    "reserve",
    "create",
    "map",
    "set_access",
    "unmap",
    "allocate",
    "free",
    "create_event",
    "record",
    "query",
    "synchronize",
)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("call", FAULTS)
def test_a_driver_call_that_fails_breaks_and_leaks_nothing(spec: str, call: str) -> None:
    nth, hit = 1, True
    while hit:
        bench = Bench(spec, capacity=160 * MIB)
        bench.driver.fail(call, nth)
        live = short_program(bench, Random(5), 60)
        hit = bench.calls(call) >= nth
        bench.driver.clear_faults()
        bench.give(*live)
        bench.allocator.trim()
        bench.allocator.check()
        assert_holds_nothing(bench)
        nth += 1 + nth // 8


@pytest.mark.parametrize("spec", SPECS)
def test_threads(spec: str) -> None:
    bench = Bench(spec, capacity=4 * GIB)

    def work(seed: int) -> None:
        random, live = Random(seed), list[int]()
        for _ in range(300):
            if live and random.random() < 0.5:
                bench.allocator.release(live.pop(random.randrange(len(live))))
            else:
                live.append(bench.allocator.allocate(random.randrange(1, 20 * MIB), seed % 3))
        for address in live:
            bench.allocator.release(address)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    bench.allocator.check()
    assert bench.stat("allocation") == 0
    bench.allocator.trim()
    assert_holds_nothing(bench)


@pytest.mark.parametrize("spec", SPECS)
def test_mistakes_are_named_and_change_nothing(spec: str) -> None:
    bench = Bench(spec)
    address = bench.take(3 * MIB)
    before: Any = bench.allocator.statistics()
    for wrong in (address + 512, 12345):
        with pytest.raises(InvalidArgument, match=hex(wrong)):
            bench.allocator.release(wrong)
        with pytest.raises(InvalidArgument, match=hex(wrong)):
            bench.allocator.record_stream(wrong, 1)
    bench.allocator.release(0)
    assert bench.allocator.statistics() == before
    bench.give(address)


@pytest.mark.parametrize("spec", SPECS)
def test_an_allocator_that_goes_gives_everything_back(spec: str) -> None:
    bench = Bench(spec)
    driver = bench.driver
    for size in (KIB, 3 * MIB, 30 * MIB, 30 * MIB):
        bench.take(size)
    held = bench.take(5 * MIB, stream=1)
    bench.allocator.record_stream(held, 2)
    driver.hold(2)
    bench.give(held)
    del bench.allocator
    assert driver.physical_bytes == driver.ranges == driver.events == 0
