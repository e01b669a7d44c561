"""The cached pair, timed: against an ordered set, the caching rival and glibc, by blocks and by threads."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.answer import Answer, Cell, Table, Target, ratio
from bench.building import build

QUESTION = "How fast is a malloc+free pair that is served from the cache, and with many blocks or threads?"
FEW, SOME, MANY = 10, 1_000, 20_000
KINDS = {"small": (FEW, SOME, MANY), "large": (FEW, SOME, MANY), "huge": (FEW, SOME)}
SIZES = {"small": "512 B to 64 KiB", "large": "1 to 16 MiB", "huge": "64 MiB"}
THREADS = (1, 2, 4, 8)
OURS, YARDSTICK = "gmlake", "ordered-set"
Turns = dict[str, list[float]]  # nanoseconds per pair, of every contender in every turn


def answer(quick: bool) -> Answer:
    """Measure all of it."""
    program = build("how_fast_is_a_pair")
    repeats, pairs = (5, 50_000) if quick else (15, 200_000)
    result = Answer(QUESTION)
    times: dict[tuple[str, int], Turns] = {}
    for kind, counts in KINDS.items():
        for blocks in counts:
            times[kind, blocks] = measure(program, kind, blocks, 1, repeats, pairs)
    result.tables = [_by_blocks(times), _by_threads(program, repeats, pairs)]
    for kind, counts in KINDS.items():
        if kind == "huge":
            continue
        worst = max(_ratio(times[kind, blocks]) for blocks in counts)
        result.targets.append(Target(f"{kind}: time over ordered set's, at worst", worst, at_most=1 / 3))
        flat = _median(times[kind, MANY][OURS]) / _median(times[kind, FEW][OURS])
        result.targets.append(
            Target(f"{kind}: time with {MANY:,} blocks over time with {FEW}", flat, at_most=2)
        )
    result.notes = [
        "N blocks: N that come and go, N free ones, and 2N that stay and keep the free ones apart.",
        "One thread: CPU time. Several: elapsed time over the pairs of all; more threads than cores wait.",
        "glibc serves small blocks only: it would ask the system for the others one by one.",
    ]
    return result


def measure(program: Path, kind: str, blocks: int, threads: int, repeats: int, pairs: int) -> Turns:
    """Let the contenders take turns. What calls the driver is not served from the cache: an error."""
    contenders = [OURS, YARDSTICK, "caching", *(["glibc"] if kind == "small" else [])]
    numbers = map(str, (blocks, threads, repeats, pairs))
    done = subprocess.run([program, kind, *numbers, *contenders], capture_output=True, text=True, check=True)
    turns: Turns = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if row["driver_calls"] and row["contender"] == OURS:
            raise SystemExit(
                f"{OURS} called the driver {row['driver_calls']} times in what should be cached pairs"
            )
        turns[row["contender"]] = row["nanoseconds"]
    return turns


def _by_blocks(times: dict[tuple[str, int], Turns]) -> Table:
    table = Table(
        "Nanoseconds per pair, one thread",
        ("blocks", "of", "gmlake", "ordered set", "caching", "glibc", "gmlake / ordered set"),
    )
    for (kind, blocks), turns in times.items():
        table.rows.append((f"{kind}, {SIZES[kind]}", blocks, *_cells(turns), _ratio(turns)))
    return table


def _by_threads(program: Path, repeats: int, pairs: int) -> Table:
    table = Table(
        f"Nanoseconds per pair, {SOME:,} blocks, one allocator for all threads",
        ("blocks", "threads", "gmlake", "ordered set", "caching", "glibc", "gmlake / ordered set"),
    )
    for kind in ("small", "large"):
        for threads in THREADS:
            turns = measure(program, kind, SOME, threads, repeats, pairs)
            table.rows.append((kind, threads, *_cells(turns), _ratio(turns)))
    return table


def _cells(turns: Turns) -> list[Cell]:
    names = (OURS, YARDSTICK, "caching", "glibc")
    return [_median(turns[name]) if name in turns else None for name in names]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _ratio(turns: Turns) -> float:
    return ratio(turns[OURS], turns[YARDSTICK])
