"""Tables as data, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from gmlake.terminal import print_whole, width_of


@dataclass(frozen=True)
class Table:
    """A title, a line on how to read it, heads and rows of text."""

    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def show(self, console: Console) -> None:
        """Print it."""
        console.print(Text(self.title, style="bold cyan"))
        console.print(Text(self.note, style="dim"))
        drawn = self._drawn(str)
        if width_of(drawn, console) > console.width:
            drawn = self._drawn(lambda head: head.replace(" ", "\n"))
        print_whole(drawn, console)

    def _drawn(self, written: Callable[[str], str]) -> Drawn:
        drawn = Drawn(box=box.SIMPLE_HEAD, header_style="dim", padding=(0, 1), pad_edge=False)
        for number, head in enumerate(self.heads):
            drawn.add_column(written(head), justify="left" if number == 0 else "right", no_wrap=True)
        for row in self.rows:
            drawn.add_row(*map(Text, row))
        return drawn

    def markdown(self) -> str:
        """The same as a section of a page."""
        lines = [f"### {self.title}", "", self.note, "", markdown_row(self.heads), "|---" * len(self.heads) + "|"]
        return "\n".join([*lines, *map(markdown_row, self.rows)]) + "\n"


def markdown_row(cells: tuple[str, ...]) -> str:
    """One line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
