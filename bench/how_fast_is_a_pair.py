"""The cached pair, timed: against an ordered set, the caching rival and glibc, by blocks and by threads."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.answer import Answer, Cell, Table, Target, ratio
from bench.building import build

QUESTION = "How fast is a malloc+free pair that is served from the cache, and with many blocks or threads?"
FEW, SOME, MANY = 10, 1_000, 20_000
SIZES = {"small": "512 B to 64 KiB", "large": "1 to 16 MiB", "huge": "64 MiB"}
THREADS = (1, 2, 4, 8)
# In a turn every block moves at least so often: it begins by fetching again what other contenders took out of the
# caches, and that is no part of the question.
MOVES = 50
OURS, YARDSTICK = "gmlake", "ordered-set"
Turns = dict[str, list[float]]  # nanoseconds per pair, of every contender in every turn


class Contents(NamedTuple):
    """What is in the heap: so many free blocks, and so many live ones that come and go."""

    kind: str
    free: int
    moving: int


CONTENTS = [
    *(
        Contents(kind, free, moving)
        for kind in ("small", "large")
        for free, moving in ((FEW, FEW), (SOME, SOME), (MANY, MANY // 10), (MANY, MANY))
    ),
    *(Contents("huge", count, count) for count in (FEW, SOME)),
]


def answer(quick: bool) -> Answer:
    """Measure all of it."""
    program = build("how_fast_is_a_pair")
    repeats, pairs = (5, 50_000) if quick else (15, 200_000)
    result = Answer(QUESTION)
    times = {contents: measure(program, contents, 1, repeats, pairs) for contents in CONTENTS}
    result.tables = [_by_contents(times), _by_threads(program, repeats, pairs)]
    for kind in ("small", "large"):
        few = Contents(kind, FEW, FEW)
        for contents in CONTENTS:
            if contents.kind != kind:
                continue
            called = f"{kind}, {contents.free:,} free, {contents.moving:,} moving"
            result.targets.append(Target(f"{called}: over ordered set", _ratio(times[contents]), at_most=1 / 3))
            if contents.free == MANY:
                flat = _median(times[contents][OURS]) / _median(times[few][OURS])
                result.targets.append(Target(f"{called}: over {FEW} free, {FEW} moving", flat, at_most=2))
    result.notes = [
        "Moving blocks are live and come and go in random order. Between any two lies one that stays.",
        "One thread: CPU time. Several: elapsed time over the pairs of all; more threads than cores wait.",
        "glibc serves small blocks only: it would ask the system for the others one by one.",
    ]
    return result


def measure(program: Path, contents: Contents, threads: int, repeats: int, pairs: int) -> Turns:
    """Let the contenders take turns. What calls the driver is not served from the cache: an error."""
    contenders = [OURS, YARDSTICK, "caching", *(["glibc"] if contents.kind == "small" else [])]
    numbers = map(str, (*contents, threads, repeats, max(pairs, MOVES * contents.moving)))
    done = subprocess.run([program, *numbers, *contenders], capture_output=True, text=True, check=True)
    turns: Turns = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if row["driver_calls"] and row["contender"] == OURS:
            raise SystemExit(f"{OURS} called the driver {row['driver_calls']} times in what should be cached pairs")
        turns[row["contender"]] = row["nanoseconds"]
    return turns


def _by_contents(times: dict[Contents, Turns]) -> Table:
    table = Table(
        "Nanoseconds per pair, one thread",
        ("blocks", "free", "moving", "gmlake", "ordered set", "caching", "glibc", "gmlake / ordered set"),
    )
    for contents, turns in times.items():
        kind = f"{contents.kind}, {SIZES[contents.kind]}"
        table.rows.append((kind, contents.free, contents.moving, *_cells(turns), _ratio(turns)))
    return table


def _by_threads(program: Path, repeats: int, pairs: int) -> Table:
    table = Table(
        f"Nanoseconds per pair, {SOME:,} free, {SOME:,} moving, one allocator for all threads",
        ("blocks", "threads", "gmlake", "ordered set", "caching", "glibc", "gmlake / ordered set"),
    )
    for kind in ("small", "large"):
        for threads in THREADS:
            turns = measure(program, Contents(kind, SOME, SOME), threads, repeats, pairs)
            table.rows.append((kind, threads, *_cells(turns), _ratio(turns)))
    return table


def _cells(turns: Turns) -> list[Cell]:
    names = (OURS, YARDSTICK, "caching", "glibc")
    return [_median(turns[name]) if name in turns else None for name in names]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _ratio(turns: Turns) -> float:
    return ratio(turns[OURS], turns[YARDSTICK])
