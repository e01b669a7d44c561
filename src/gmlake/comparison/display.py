"""While a command runs and says nothing here: which run it is, for how long, and the last line it wrote.

On a terminal this is one line that is drawn again; elsewhere a line per run, when it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from gmlake.comparison.output import Output


class Display:
    """Told when a run begins; the rest comes with every tick."""

    def __init__(self, quiet: bool, console: Console | None = None) -> None:
        """With `quiet` there is no line that is drawn again, because the command's own output is shown."""
        self._console = console or Console(stderr=True, highlight=False)
        self._drawn = self._console.is_terminal and not quiet
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[line]}", style="dim", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=self._console,
            transient=True,
            auto_refresh=False,
        )

    def __enter__(self) -> Display:
        """Show nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        if self._drawn:
            self._bars.stop()

    def begin(self, title: str, output: Output) -> Callable[[], None]:
        """A run starts; returns what to call several times a second."""
        for old in self._bars.task_ids:
            self._bars.remove_task(old)
        if not self._drawn:
            self._console.print(f"gmlake compare: {escape(title)}")
            return output.follow
        task = self._bars.add_task(escape(title), total=None, line="")
        self._bars.start()
        return lambda: self._draw(task, output)

    def _draw(self, task: TaskID, output: Output) -> None:
        output.follow()
        self._bars.update(task, line=escape(output.last_line))
        self._bars.refresh()
