"""The tables of the paper from results of ours, with the published figures beside them, and the sum of it all.

Sizes are GiB; published ones are in GB as published, read off charts. `(98.2)` behind a size is the utilisation in
percent. OOM: the run does not complete on the paper's card.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gmlake.replay import Result
from gmlake.workloads.catalogue import read_toml
from gmlake.workloads.tables import Table
from gmlake.workloads.workload import Workload

GIB = 2**30
OURS, DEFAULT = "gmlake", "caching"
LEAST_SAVED = 9.2  # GB on average, the paper's headline
LEAST_USED = 0.98
TITLES = {
    "strategies": "Strategies",
    "scale-out": "GPUs",
    "platforms": "Platforms",
    "batches": "Batches",
}
_ORDER = {"scale-out": "gpus", "batches": "batch"}
_RESERVED = "Peak reserved memory in GiB (utilisation %), published ones in GB; saved: PyTorch's default less GMLake."


@dataclass(frozen=True)
class Case:
    """A workload and what each allocator made of it."""

    workload: Workload
    results: dict[str, Result]

    @property
    def active(self) -> int | None:
        """Peak active memory, known if some allocator completes."""
        return max((result.peak_active for result in self.results.values() if result.completed), default=None)

    @property
    def saved(self) -> int | None:
        """What GMLake reserves less than PyTorch's default; None unless both complete."""
        ours, default = self.results.get(OURS), self.results.get(DEFAULT)
        if ours is None or default is None or not ours.completed or not default.completed:
            return None
        return default.peak_reserved - ours.peak_reserved


def cases(workloads: Sequence[Workload], results: Sequence[Result]) -> list[Case]:
    """Results by workload."""
    found: dict[str, dict[str, Result]] = {}
    for result in results:
        found.setdefault(result.trace, {})[result.allocator] = result
    return [Case(workload, found.get(workload.id, {})) for workload in workloads]


def tables(chosen: Sequence[Case]) -> list[Table]:
    """Everything there is to say about these cases; tables without rows are left out."""
    allocators = list(dict.fromkeys(name for case in chosen for name in case.results))
    made = [_comparison(name, [case for case in chosen if name in case.workload.tables], allocators) for name in TITLES]
    others = [case for case in chosen if not case.workload.tables]
    made.append(_comparison(None, others, allocators))
    made.append(_largest_batches([case for case in chosen if "batches" in case.workload.tables], allocators))
    made.append(_capacities(chosen, allocators))
    made.append(_driver(chosen, allocators))
    return [table for table in made if table.rows]


def _comparison(name: str | None, chosen: Sequence[Case], allocators: Sequence[str]) -> Table:
    heads = ("workload", "active", *allocators, "saved", "published: PyTorch", "GMLake")
    if name in _ORDER:
        chosen = sorted(chosen, key=lambda case: (case.workload.family, getattr(case.workload, _ORDER[name])))
    rows = [comparison_row(name, case, allocators) for case in chosen]
    if name is None:
        return Table("Beyond the paper", _RESERVED, heads[:-2], tuple(row[:-2] for row in rows))
    return Table(TITLES[name], _RESERVED, heads, tuple(rows))


def comparison_row(name: str | None, case: Case, allocators: Sequence[str]) -> tuple[str, ...]:
    """One workload in a table of the paper."""
    active, saved = case.active, case.saved
    return (
        case.workload.id,
        "OOM" if active is None else gib(active),
        *(reserved(case.results.get(allocator)) for allocator in allocators),
        "-" if saved is None else gib(saved),
        *published_cells(name, case.workload),
    )


def published_cells(name: str | None, workload: Workload) -> tuple[str, str]:
    """The published figures of PyTorch and GMLake for this workload's place in a table."""
    row = published(name, workload)
    if row is None:
        return "-", "-"
    theirs, theirs_used, ours, ours_used = row
    return (f"{theirs:g} ({100 * theirs_used:.1f})" if theirs else "OOM", f"{ours:g} ({100 * ours_used:.1f})")


def published(name: str | None, workload: Workload) -> list[float] | None:
    """PyTorch's reserved GB and utilisation, and GMLake's; None if the paper has no such point."""
    table = _published().get(name or "", {}).get(workload.family)
    if isinstance(table, dict):
        at = {"strategies": workload.strategy, "scale-out": str(workload.gpus), "batches": str(workload.batch)}
        table = table.get(at[name or ""])
    row: list[float] | None = table
    return row


@cache
def _published() -> dict[str, Any]:
    return read_toml(Path(__file__).parent / "published.toml")


def _largest_batches(chosen: Sequence[Case], allocators: Sequence[str]) -> Table:
    rows = []
    for family in dict.fromkeys(case.workload.family for case in chosen):
        of_family = [case for case in chosen if case.workload.family == family]
        tried = sorted({case.workload.batch for case in of_family})
        cells = []
        for allocator in allocators:
            fits = [c.workload.batch for c in of_family if allocator in c.results and c.results[allocator].completed]
            cells.append(str(max(fits)) if fits else "none")
        known = {case.workload.batch: published("batches", case.workload) for case in of_family}
        theirs = max((batch for batch, row in known.items() if row and row[0]), default="-")
        ours = max((batch for batch, row in known.items() if row), default="-")
        rows.append((family, " ".join(map(str, tried)), *cells, str(theirs), str(ours)))
    heads = ("model", "tried", *allocators, "published: PyTorch", "GMLake")
    return Table("Largest batch", "Of those that were tried, the largest that completes on 80 GB.", heads, tuple(rows))


def _capacities(chosen: Sequence[Case], allocators: Sequence[str]) -> Table:
    def cell(case: Case, allocator: str) -> str:
        result = case.results.get(allocator)
        if result is None or result.smallest_capacity is None:
            return "-"
        share = f" ({100 * case.active / result.smallest_capacity:.1f})" if case.active is not None else ""
        return gib(result.smallest_capacity) + share

    rows = [
        (case.workload.id, *(cell(case, allocator) for allocator in allocators))
        for case in chosen
        if any(result.smallest_capacity for result in case.results.values())
    ]
    note = "The smallest device on which the run completes, in GiB (peak active memory as % of it)."
    return Table("Smallest capacity", note, ("workload", *allocators), tuple(rows))


def _driver(chosen: Sequence[Case], allocators: Sequence[str]) -> Table:
    def cells(value: Callable[[Result], str], case: Case) -> list[str]:
        found = [case.results.get(allocator) for allocator in allocators]
        return ["-" if result is None or not result.completed else value(result) for result in found]

    rows = [(case.workload.id, *cells(quiet_after, case), *cells(_warm, case)) for case in chosen]
    note = (
        "Iterations until no driver call is made any more, and driver calls · modelled ms in a warm iteration, "
        "on 80 GB. Times are modelled from published measurements, not measured."
    )
    heads = ("workload", *(f"{name}: quiet after" for name in allocators), *(f"{name}: warm" for name in allocators))
    return Table("Driver calls", note, heads, tuple(rows))


def quiet_after(result: Result) -> str:
    """So many iterations make driver calls, and those that follow none."""
    busy = [number for number, calls in enumerate(result.iteration_driver_calls, 1) if calls]
    after = busy[-1] if busy else 0
    return "never" if after == result.iterations else str(after)


def _warm(result: Result) -> str:
    if result.warm_driver_calls is None or result.warm_driver_ms is None:
        return "-"
    return "0" if result.warm_driver_calls == 0 else f"{result.warm_driver_calls:,.0f} · {result.warm_driver_ms:,.1f}"


def reserved(result: Result | None) -> str:
    """Peak reserved memory and utilisation."""
    if result is None:
        return "-"
    return f"{gib(result.peak_reserved)} ({100 * result.utilisation:.1f})" if result.completed else "OOM"


def gib(value: float) -> str:
    """Bytes in GiB."""
    return f"{value / GIB:.1f}"
