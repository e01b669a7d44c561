"""Iterations found from periodicity, against those that were recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gmlake.trace import Kind, Trace, bundled_names, read_trace, validate
from gmlake.trace.building import Rows, build
from gmlake.trace.iterations import find_iterations, mark_iterations

NEAR = 32  # events; an iteration has thousands


def without_marks(trace: Trace) -> Trace:
    return trace.select(trace.kind != Kind.ITERATION, marks_from="none")


def compare(trace: Trace) -> None:
    """Found marks must be the recorded ones, but for a last one with nothing after it."""
    recorded = trace.marks - np.arange(len(trace.marks))
    bare = without_marks(trace)
    recorded = recorded[recorded < len(bare)]
    found = find_iterations(bare)
    assert len(found) == len(recorded), trace.name
    off = found - recorded
    assert np.abs(off).max() <= NEAR, (trace.name, off.tolist())
    # The same phase everywhere, but for the first iterations, which prepare what later ones find.
    assert len(np.unique(off[2:])) == 1, (trace.name, off.tolist())


@pytest.mark.parametrize("name", ["demo", "fixed", "offload", "fsdp"])
def test_bundled_traces(name: str) -> None:
    compare(read_trace(name))


def test_recorded_traces(shared_data: Path) -> None:
    sources = sorted((shared_data / "traces").glob("*.npz"))
    assert sources
    for source in sources:
        compare(read_trace(source))


def test_a_single_step_is_one_iteration(shared_data: Path) -> None:
    """Its layers repeat, but memory climbs and descends with them."""
    for source in sorted(shared_data.glob("*.snapshot.json.gz")):
        trace = read_trace(source)
        assert (trace.iterations, trace.marks_from) == (0, "none")
    assert "snapshot" in bundled_names()
    assert read_trace("snapshot").marks_from == "none"


def test_found_marks_say_so() -> None:
    bare = without_marks(read_trace("fixed"))
    assert bare.marks_from == "none"
    marked = mark_iterations(bare)
    validate(marked)
    assert marked.marks_from == "periodicity"
    assert marked.iterations == 20
    assert len(marked) == len(bare) + 20
    np.testing.assert_array_equal(without_marks(marked).id, bare.id)
    assert mark_iterations(marked) is marked


def program(iterations: int, seed: int, *, jitter: int = 0, batches: int = 1) -> Trace:
    """Set-up, then steps of a little network whose sizes change with every step."""
    random = np.random.default_rng(seed)
    rows: list[tuple[int, int, int]] = []
    made = 0

    def allocate(size: int) -> int:
        nonlocal made
        rows.append((Kind.ALLOCATE, made, size))
        made += 1
        return made - 1

    def free(number: int) -> None:
        rows.append((Kind.FREE, number, 0))

    for _ in range(50):
        allocate(int(random.integers(1, 1 << 20)))
    for _ in range(iterations):
        length = int(random.integers(64, 512))
        rows.append((Kind.ITERATION, 0, 0))
        gradients = []
        for batch in range(batches):
            kept = []
            for layer in range(12):
                scratch = allocate(length * 4096)
                kept.append(allocate(length * 8192 + layer))
                free(scratch)
            for _ in range(int(random.integers(0, jitter + 1))):
                free(allocate(512))
            for activation in reversed(kept):
                gradient = allocate(1 << 20)
                free(activation)
                if batch == 0:
                    gradients.append(gradient)
                else:
                    free(gradient)
        for _ in range(6):
            free(allocate(1 << 16))
        for gradient in gradients:
            free(gradient)
    table = np.array(rows, dtype=np.int64)
    zeros = np.zeros(len(rows), np.int64)
    return build(
        Rows(table[:, 0].astype(np.uint8), table[:, 1].astype(np.uint64), table[:, 2], zeros),
        name=f"program {seed}",
        source="test",
    )


@pytest.mark.parametrize("seed", range(5))
def test_lengths_may_change_from_step_to_step(seed: int) -> None:
    compare(program(12, seed))


@pytest.mark.parametrize("jitter", [1, 3, 10])
def test_steps_need_not_have_equal_numbers_of_events(jitter: int) -> None:
    trace = program(20, 1, jitter=jitter)
    found = find_iterations(without_marks(trace))
    assert abs(len(found) - 20) <= 1
    recorded = trace.marks - np.arange(len(trace.marks))
    nearest = np.abs(found[:, None] - recorded[None, :]).min(axis=1)
    assert nearest.max() <= NEAR


def test_a_step_of_several_batches_is_one_iteration() -> None:
    compare(program(12, 3, batches=3))


@pytest.mark.parametrize("seed", range(5))
def test_chance_has_no_iterations(seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds: list[int] = []
    keys: list[int] = []
    live: list[int] = []
    for number in range(3000):
        if live and random.random() < 0.49:
            kinds.append(Kind.FREE)
            keys.append(live.pop(int(random.integers(len(live)))))
        else:
            kinds.append(Kind.ALLOCATE)
            keys.append(number)
            live.append(number)
    sizes = random.integers(1, 1 << 24, len(kinds))
    rows = Rows(np.array(kinds, np.uint8), np.array(keys, np.uint64), sizes, np.zeros(len(kinds), np.int64))
    assert not len(find_iterations(build(rows, name="chance", source="test")))


def test_short_and_empty_traces_have_none() -> None:
    assert not len(find_iterations(without_marks(program(0, 0))))
    assert not len(find_iterations(without_marks(program(1, 0))))
    tight = [(Kind.ALLOCATE, n // 2, 8) if n % 2 == 0 else (Kind.FREE, n // 2, 0) for n in range(400)]
    table = np.array(tight, dtype=np.int64)
    rows = Rows(table[:, 0].astype(np.uint8), table[:, 1].astype(np.uint64), table[:, 2], np.zeros(400, np.int64))
    assert not len(find_iterations(build(rows, name="tight", source="test")))
