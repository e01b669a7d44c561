"""What a benchmark found: tables, and the targets that were set beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

Cell = str | float | int | None


@dataclass
class Table:
    """Rows of cells under a title."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """Something that must not exceed, or must reach, a number."""

    what: str
    measured: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool:
        """Whether the measured value is on the right side of the bound."""
        low = self.at_least is None or self.measured >= self.at_least
        return low and (self.at_most is None or self.measured <= self.at_most)


@dataclass
class Answer:
    """The answer to the question of one benchmark."""

    question: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The answer as plain dicts, lists and numbers."""
        targets = [asdict(target) | {"met": target.met} for target in self.targets]
        return asdict(self) | {"targets": targets}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios turn by turn: what slows the machine for a while slows both sides."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def show(answer: Answer, console: Console) -> None:
    """Print the tables, then the targets."""
    console.print(f"\n{answer.question}", style="bold cyan")
    for table in answer.tables:
        _print(table, console)
    if answer.targets:
        rows: list[tuple[Cell, ...]] = []
        for target in answer.targets:
            at_most = target.at_most is not None
            bound = f"{'<=' if at_most else '>='} {_text(target.at_most if at_most else target.at_least)}"
            rows.append((target.what, bound, target.measured, "yes" if target.met else "NO"))
        _print(Table("Targets", ("what", "target", "measured", "met"), rows), console)
    for note in answer.notes:
        console.print(note, style="dim")


def _print(table: Table, console: Console) -> None:
    drawn = RichTable(
        title=table.title,
        title_justify="left",
        title_style="italic",
        box=None,
        pad_edge=False,
        padding=(0, 1),
    )
    for number, column in enumerate(table.columns):
        words = all(isinstance(row[number], str) for row in table.rows)
        drawn.add_column(column, justify="left" if words else "right")
    for row in table.rows:
        drawn.add_row(*map(_text, row))
    console.print()
    console.print(drawn)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
