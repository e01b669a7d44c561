"""Random programs: short ones that hypothesis makes as small as it can, and long ones from seeds."""

from __future__ import annotations

import contextlib
from random import Random

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

from gmlake.errors import InvalidArgument, OutOfMemory

from .client import Client, Pool
from .memory import GIB, KIB, MIB, Lake

# Capacity and limit: short of memory on a small device and on a large one, and not short at all.
DEVICES = ((160 * MIB, None), (64 * GIB, 200 * MIB), (64 * GIB, None))
OPTIONS = ("", "address_budget=0.5", "target=0.8,small_limit=4KiB", "chunk_limit=4MiB")
SIZES = (512, 100 * KIB, MIB, MIB + 1, 3 * MIB, 8 * MIB, 20 * MIB, 33 * MIB, 80 * MIB)
POOLS: tuple[Pool, ...] = ((0, 1), (1, 0))

streams = st.sampled_from([0, 0, 0, 1, 1, 2, *range(3, 11)])
sizes = st.one_of(st.sampled_from(SIZES), st.integers(1, 40 * MIB))


class Program(RuleBasedStateMachine):
    @initialize(device=st.sampled_from(DEVICES), options=st.sampled_from(OPTIONS))
    def start(self, device: tuple[int, int | None], options: str) -> None:
        self.client = Client(Lake(options, capacity=device[0], limit=device[1]))

    @rule(size=sizes, stream=streams)
    def allocate(self, size: int, stream: int) -> None:
        with contextlib.suppress(OutOfMemory):
            self.client.allocate(size, stream)

    @precondition(lambda self: self.client.live)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.client.live)))
        self.client.release(address)
        with pytest.raises(InvalidArgument, match=str(address)):
            self.client.allocator.release(address)

    @rule(size=sizes, stream=streams, count=st.integers(2, 6))
    def leave_holes(self, size: int, stream: int, count: int) -> None:
        with contextlib.suppress(OutOfMemory):
            addresses = [self.client.allocate(size, stream) for _ in range(count)]
            for address in addresses[::2]:
                self.client.release(address)

    @precondition(lambda self: self.client.live)
    @rule(data=st.data(), stream=streams)
    def record_stream(self, data: st.DataObject, stream: int) -> None:
        self.client.record_stream(data.draw(st.sampled_from(sorted(self.client.live))), stream)

    @precondition(lambda self: self.client.live)
    @rule(data=st.data(), stream=streams)
    def use_silently(self, data: st.DataObject, stream: int) -> None:
        with contextlib.suppress(OutOfMemory):
            self.client.use_silently(data.draw(st.sampled_from(sorted(self.client.live))), stream)

    @rule(stream=streams, held=st.booleans())
    def work(self, stream: int, held: bool) -> None:
        (self.client.driver.hold if held else self.client.driver.finish)(stream)

    @rule(pool=st.sampled_from(POOLS), stream=st.sampled_from([0, 2]))
    def begin_pool(self, pool: Pool, stream: int) -> None:
        self.client.begin_pool(pool, {stream})

    @rule()
    def end_pool(self) -> None:
        self.client.end_pool()

    @rule(pool=st.sampled_from(POOLS))
    def release_pool(self, pool: Pool) -> None:
        self.client.release_pool(pool)

    @rule(limit=st.integers(20 * MIB, 400 * MIB))
    def set_limit(self, limit: int) -> None:
        self.client.allocator.set_limit(limit)

    @rule()
    def trim(self) -> None:
        self.client.allocator.trim()

    @invariant()
    def verify(self) -> None:
        self.client.verify()

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.finish()


def test_short_programs() -> None:
    run_state_machine_as_test(Program, settings=settings(max_examples=150, stateful_step_count=60))  # type: ignore[no-untyped-call]


def random_step(client: Client, random: Random, stream_count: int, scale: int) -> None:
    """One step of a program that lives near the limit and repeats itself a little; large blocks are scaled."""
    stream = random.randrange(stream_count)
    match random.choices(
        ("allocate", "release", "elsewhere", "silently", "hold", "finish", "pool", "trim"),
        (45, 36, 8, 6, 4, 4, 2, 0.3),
    ):
        case ["allocate"]:
            size = random.choice(SIZES) if random.random() < 0.7 else random.randrange(1, 60 * MIB)
            size *= scale if size > MIB else 1
            try:
                client.allocate(size, stream)
            except OutOfMemory:
                for address in random.sample(sorted(client.live), len(client.live) // 2):
                    client.release(address)
        case ["release"] if client.live:
            client.release(random.choice(sorted(client.live)))
        case ["elsewhere"] if client.live:
            client.record_stream(random.choice(sorted(client.live)), stream)
        case ["silently"] if client.live:
            with contextlib.suppress(OutOfMemory):
                client.use_silently(random.choice(sorted(client.live)), stream)
        case ["hold"]:
            client.driver.hold(stream)
        case ["finish"]:
            client.driver.finish(stream)
        case ["pool"]:
            if client.open:
                client.end_pool()
            elif random.random() < 0.5:
                client.begin_pool(random.choice(POOLS), {stream})
            else:
                client.release_pool(random.choice(POOLS))
        case ["trim"]:
            client.allocator.trim()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("capacity", "limit"), [(400 * MIB, None), (64 * GIB, 400 * MIB)])
@pytest.mark.parametrize("stream_count", [2, 10, 40])
def test_long_programs(options: str, capacity: int, limit: int | None, stream_count: int) -> None:
    client = Client(Lake(options, capacity=capacity, limit=limit))
    run_long(client, stream_count, steps=6000, seed=stream_count)
    client.finish()


@pytest.mark.parametrize("stream_count", [2, 10])
@pytest.mark.parametrize("seed", [2, 5, 14, 18])
def test_long_programs_that_cut_chunks(stream_count: int, seed: int) -> None:
    lake = Lake(capacity=64 * GIB, limit=8 * GIB)
    client = Client(lake)
    client.release(client.allocate(7 * GIB, 0))  # so that chunks are large
    run_long(client, stream_count, steps=800, seed=seed, scale=20)
    assert lake.own("cuts") > 0
    client.finish()


def run_long(client: Client, stream_count: int, steps: int, seed: int, scale: int = 1) -> None:
    random = Random(seed)
    for step in range(steps):
        random_step(client, random, stream_count, scale)
        client.verify_released()
        if step % 20 == 0:
            client.verify()
