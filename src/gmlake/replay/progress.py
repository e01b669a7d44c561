"""A display of running replays on stderr: nothing at first, then one bar per replay under way."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

PATIENCE = 1.5  # seconds without a display


class ProgressDisplay:
    """Written to from worker threads (begin, update, end), drawn from one (refresh)."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        """Expect `total` replays; show them only if the console is a terminal."""
        console = console or Console(stderr=True)
        self._started = time.monotonic()
        self._visible = False
        self._enabled = console.is_terminal
        self._lock = threading.Lock()
        self._tasks: dict[int, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),  # brackets in a name are brackets
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[stage]}", style="dim"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            auto_refresh=False,
        )
        self._all = self._bars.add_task("replays", total=total, stage="")

    def __enter__(self) -> ProgressDisplay:
        """Show nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the display away."""
        if self._visible:
            self._bars.stop()

    def begin(self, number: int, title: str, events: int) -> None:
        """A replay starts."""
        with self._lock:
            self._tasks[number] = self._bars.add_task(title, total=events, stage="")

    def update(self, number: int, stage: str, fed: int) -> None:
        """A replay has fed this many events in its present stage."""
        with self._lock:
            self._bars.update(self._tasks[number], completed=fed, stage=stage)

    def end(self, number: int) -> None:
        """A replay has ended, well or not."""
        with self._lock:
            self._bars.remove_task(self._tasks.pop(number))
            self._bars.advance(self._all)

    def refresh(self) -> None:
        """Draw, once enough time has passed for it to be of use."""
        if not self._enabled or time.monotonic() - self._started < PATIENCE:
            return
        if not self._visible:
            self._bars.start()
            self._visible = True
        self._bars.refresh()
