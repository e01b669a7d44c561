"""Text for people: as wide as the terminal, without limit where there is none, and no figure is ever cut."""

from __future__ import annotations

import os

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

WIDEST = 10_000  # letters


def counted(number: int, noun: str) -> str:
    """'1 event', '1,024 events'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def standard_output() -> Console:
    """Where results go. A file or a pipe has no width, unless COLUMNS says so."""
    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS") else Console(width=WIDEST)


def width_of(table: Table, console: Console) -> int:
    """Letters in a line of the table if nothing is wrapped or cut."""
    return Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum


def print_whole(table: Table, console: Console) -> None:
    """Rather lines that the terminal breaks than cells without their figures."""
    needed = width_of(table, console)
    if needed > console.width:
        console = Console(file=console.file, width=needed)
    console.print(table)
