"""Results as tables for people: one per trace, allocators as rows, the best value of a column in bold green.

Columns that say nothing (no retries, no iterations) are left out, and on a narrow terminal the most
dispensable ones, until the table fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gmlake import _core
from gmlake.replay.result import MEMORY_CALLS, Result
from gmlake.terminal import counted, print_whole
from gmlake.trace import Trace

GIB = 2**30


@dataclass(frozen=True)
class Column:
    """A column of the table: its head, the number behind a cell, how to write it, and which end is best."""

    head: str
    value: Callable[[Result], float | None]
    text: Callable[[float], str]
    best: Callable[[Iterable[float]], float] | None = None
    rank: int = 0  # on a narrow terminal the highest goes first; 0 always stays

    def cells(self, results: Sequence[Result]) -> list[Text]:
        """One cell per result."""
        values = [self.value(result) for result in results]
        known = [value for value in values if value is not None]
        best = self.text(self.best(known)) if self.best and len(set(known)) > 1 else None
        return [self._cell(value, best) for value in values]

    def width(self, results: Sequence[Result]) -> int:
        """Characters the column takes, with the space before it."""
        return 2 + max(map(len, [*self.head.split("\n"), *map(str, self.cells(results))]))

    def _cell(self, value: float | None, best: str | None) -> Text:
        if value is None:
            return Text("-", style="dim")
        text = self.text(value)
        return Text(text, style="bold green" if text == best else "")


def show(traces: Sequence[Trace], results: Sequence[Result], console: Console, calls: bool) -> None:
    """Print a table per trace, with driver calls by kind if asked; `results` are of a sweep over `traces`."""
    rows = len(results) // len(traces)
    for number, trace in enumerate(traces):
        of_trace = results[number * rows : (number + 1) * rows]
        console.print(_title(trace, of_trace))
        print_whole(_table(_fit(_columns(of_trace), of_trace, console.width), of_trace), console)
        if calls:
            console.print("\nDriver calls in all, by kind", style="dim")
            print_whole(_call_table(of_trace, console.width), console)
        for line in _notes(of_trace):
            console.print(line, style="yellow")
        sentence = closing_sentence(of_trace)
        if sentence:
            console.print(f"\n{sentence}", style="bold")
        console.print()


def _title(trace: Trace, results: Sequence[Result]) -> Text:
    requested, active = _core.trace_peaks(trace.kind, trace.id, trace.size, trace.stream)
    capacity = results[0].capacity
    iterations = f", {counted(trace.iterations, 'iteration')}" if trace.iterations else ""
    text = Text.assemble((trace.name, "bold cyan"))
    text.append(
        f"  {counted(len(trace), 'event')}{iterations}; "
        f"peak requested {_gib(requested)} GiB, active {_gib(active)} GiB"
        f"{f'; on a device of {_gib(capacity)} GiB' if capacity else ''}"
    )
    return text


def _table(columns: Sequence[Column], results: Sequence[Result]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1), pad_edge=False)
    table.add_column("allocator", no_wrap=True)
    for column in columns:
        table.add_column(column.head, justify="right", vertical="bottom")
    for row in zip(*(column.cells(results) for column in columns), strict=True):
        table.add_row(Text(results[len(table.rows)].allocator), *row)
    return table


def _columns(results: Sequence[Result]) -> list[Column]:
    columns = [
        Column("reserved\nGiB", _if_completed(lambda r: r.peak_reserved), _gib, min),
        Column("util.\n%", _if_completed(lambda r: r.utilisation), _percent, max),
        Column("frag.\n%", _if_completed(lambda r: r.fragmentation), _percent, min, rank=6),
    ]
    if any(r.smallest_capacity for r in results):
        columns.append(Column("smallest\nGiB", lambda r: r.smallest_capacity, _gib, min))
        columns.append(Column("active /\nsmallest %", _active_share, _percent, max, rank=2))
        columns.append(Column("ms / iter.\nat smallest", _ms_at_smallest, _number, min, rank=3))
    if any(r.retries for r in results):
        columns.append(Column("retries", lambda r: r.retries, _count, rank=3))
    if any(not r.completed for r in results):
        columns.append(Column("out of mem.\nat event", lambda r: r.out_of_memory, _count))
    return [
        *columns,
        Column("calls /\niteration", lambda r: r.warm_driver_calls, _number, min, rank=1),
        Column("driver ms /\niteration", lambda r: r.warm_driver_ms, _number, min, rank=1),
        Column("driver ms\nin all", _if_completed(lambda r: r.driver_ms), _number, min, rank=5),
        Column("CPU\nms", _if_completed(lambda r: 1000 * r.cpu_seconds), _number, min, rank=4),
        Column("million\nevents/s", _speed, "{:.2f}".format, max, rank=7),
    ]


def _fit(columns: list[Column], results: Sequence[Result], width: int) -> list[Column]:
    columns = [column for column in columns if any(column.value(result) is not None for result in results)]
    while _width(columns, results) > width:
        dispensable = max(columns, key=lambda column: column.rank)
        if dispensable.rank == 0:
            break
        columns = [column for column in columns if column is not dispensable]
    return columns


def _width(columns: Sequence[Column], results: Sequence[Result]) -> int:
    names = max(len("allocator"), *(len(result.allocator) for result in results))
    return names + sum(column.width(results) for column in columns)


def _call_table(results: Sequence[Result], width: int) -> Table:
    """Kinds of calls as columns; as rows where that would be too wide, because every figure counts."""

    def count(kind: str) -> Callable[[Result], float | None]:
        return lambda result: result.driver_calls[kind]

    used = [kind for kind in MEMORY_CALLS if any(r.driver_calls[kind] for r in results)]
    columns = [Column(kind, count(kind), _count) for kind in used]
    if _width(columns, results) <= width:
        return _table(columns, results)
    table = Table(box=None, header_style="dim", padding=(0, 1), pad_edge=False)
    table.add_column("calls", no_wrap=True)
    for result in results:
        table.add_column(result.allocator, justify="right")
    for column in columns:
        table.add_row(column.head, *column.cells(results))
    return table


def _notes(results: Sequence[Result]) -> list[str]:
    notes = []
    for result in results:
        if result.out_of_memory_message:
            notes.append(f"{result.allocator}: {result.out_of_memory_message}")
        if result.at_smallest_capacity and result.at_smallest_capacity.fails_above:
            fails = ", ".join(map(_gib, result.at_smallest_capacity.fails_above))
            completes = f"it completes on {_gib(result.smallest_capacity or 0)} GiB"
            notes.append(f"{result.allocator} is not monotone: {completes} but runs out of memory on {fails} GiB.")
    return notes


def closing_sentence(results: Sequence[Result]) -> str | None:
    """What it comes down to: gmlake, or else the leanest, against PyTorch's default, or else the neediest."""
    need = {result.allocator: result.needs for result in results}
    known = {name: needs for name, needs in need.items() if needs is not None}
    stuck = [name for name in need if name not in known]
    if len(need) < 2:
        return None
    if not known:
        return "None of them completes."
    ours = "gmlake" if "gmlake" in known else min(known, key=known.__getitem__)
    theirs = "caching" if "caching" in known and ours != "caching" else max(known, key=known.__getitem__)
    if ours == theirs:
        return f"Only {ours} completes: it needs {_gib(known[ours])} GiB." if stuck else None
    saved = known[theirs] - known[ours]
    needs = f"{_called(ours)} needs {_gib(known[ours])} GiB"
    if _gib(known[ours]) == _gib(known[theirs]):
        return f"{needs}, as much as {_called(theirs)}."
    difference = f"{_gib(abs(saved))} GiB {'less' if saved > 0 else 'more'}"
    return f"{needs} where {_called(theirs)} needs {_gib(known[theirs])}: {difference}."


def _called(allocator: str) -> str:
    return {"caching": "PyTorch", "expandable": "PyTorch with expandable segments"}.get(allocator, allocator)


def _if_completed(value: Callable[[Result], float]) -> Callable[[Result], float | None]:
    return lambda result: value(result) if result.completed else None


def _active_share(result: Result) -> float | None:
    return result.peak_active / result.smallest_capacity if result.smallest_capacity else None


def _ms_at_smallest(result: Result) -> float | None:
    return result.at_smallest_capacity.warm_driver_ms if result.at_smallest_capacity else None


def _speed(result: Result) -> float | None:
    return result.events / result.cpu_seconds / 1e6 if result.completed and result.cpu_seconds > 0 else None


def _gib(value: float) -> str:
    digits = 1 if value >= 10 * GIB else 2 if value >= GIB else 3
    return f"{value / GIB:.{digits}f}"


def _percent(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:.1f}"  # + 0.0: never "-0.0"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.2f}"
