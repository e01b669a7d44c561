"""Watch the GMLake processes of this user on this machine, live.

For every process and device: what the program has allocated, what is active (also memory that a stream still uses),
what is reserved on the device, how much of that is in use, how often memory was stitched, and when memory last ran out.
The processes notice nothing: their counters lie in shared memory, and reading them makes them do no work. Processes on
an emulated device are shown like any other; those that PyTorch's own allocator serves are not.

Without a terminal the table is printed once.

examples:
  gmlake top
      every second, until Ctrl-C
  gmlake top --once
      now
  gmlake top --json --interval 10 >> memory.jsonl
      one line of JSON every ten seconds, for scripts

exit status: 0, also after Ctrl-C; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gmlake import _core
from gmlake.errors import UserError
from gmlake.terminal import standard_output
from gmlake.top import Broken, Process, look

NAME = "top"
_HINT = "No process of this user uses GMLake on this machine. Start one: gmlake run -- python train.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add = parser.add_argument
    add("--once", action="store_true", help="print once and end")
    add("--interval", metavar="SECONDS", type=float, default=1.0, help="between two looks; default: 1")
    add("--json", action="store_true", help='print {"time": ..., "processes": [...], "broken": [...]}, a line per look')


def run(args: argparse.Namespace) -> int:
    """Look, show, again."""
    if not 0.1 <= args.interval <= 86400:
        raise UserError(f"--interval needs a number of seconds from 0.1 to 86400, not {args.interval:g}")
    try:
        if args.json:
            _print_lines(args.interval, args.once)
        else:
            _show(args.interval, args.once)
    except KeyboardInterrupt:  # the ordinary way to end it
        pass
    return 0


def _show(interval: float, once: bool) -> None:
    console = standard_output()
    if once or not console.is_terminal:
        console.print(picture(*look(), console.width))
        return
    with Live(picture(*look(), console.width), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(picture(*look(), console.width), refresh=True)


def _print_lines(interval: float, once: bool) -> None:
    while True:
        processes, broken = look()
        line = {
            "time": time.time(),
            "processes": [process.to_json() for process in processes],
            "broken": [{"pid": one.pid, "why": one.why} for one in broken],
        }
        print(json.dumps(line))
        sys.stdout.flush()
        if once:
            return
        time.sleep(interval)


def picture(processes: list[Process], broken: list[Broken], width: int) -> Group:
    """The table, as wide as the terminal allows, and what could not be read."""
    cells = [[column.text(one) for one in processes] for column in _COLUMNS]
    wide = [2 + max(map(len, [column.head, *texts])) for column, texts in zip(_COLUMNS, cells, strict=True)]
    shown = list(range(len(_COLUMNS)))
    while sum(wide[number] for number in shown) - 2 > width and any(_COLUMNS[number].rank for number in shown):
        shown.remove(max(shown, key=lambda number: _COLUMNS[number].rank))
    fits = sum(wide[number] for number in shown) - 2 <= width
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for number in shown:
        # Where not even these fit, figures go on in the next line: none is cut.
        table.add_column(
            _COLUMNS[number].head, justify="left" if number == 1 else "right", no_wrap=fits, overflow="fold"
        )
    for row in range(len(processes)):
        style = "red" if processes[row].last_oom_us else ""
        table.add_row(*(Text(cells[number][row], style if _COLUMNS[number].alarm else "") for number in shown))
    lines = [Text(f"process {one.pid} is left out: its board cannot be read, {one.why}", "yellow") for one in broken]
    return Group(table if processes else Text(_HINT), *lines)


def _out_of_memory(process: Process) -> str:
    if not process.last_oom_us:
        return "-"
    moment = datetime.fromtimestamp(process.last_oom_us / 1e6)
    times = f", {process.ooms} times" if process.ooms > 1 else ""
    return f"{moment:%H:%M:%S}, {_core.format_bytes(max(process.last_oom_bytes, 0))} asked{times}"


def _bytes(name: str) -> Callable[[Process], str]:
    return lambda process: _core.format_bytes(max(getattr(process, name), 0))


@dataclass(frozen=True)
class Column:
    """A column of the table; on a narrow terminal the highest rank goes first, 0 always stays."""

    head: str
    text: Callable[[Process], str]
    rank: int = 0
    alarm: bool = False


_COLUMNS = (
    Column("process", lambda process: str(process.pid)),
    Column("command", lambda process: process.name, 2),
    Column("GPU", lambda process: str(process.device)),
    Column("allocated", _bytes("allocated"), 1),
    Column("active", _bytes("active"), 6),
    Column("reserved", _bytes("reserved")),
    Column("peak", _bytes("peak_reserved"), 5),
    Column("of", _bytes("capacity"), 4),
    Column("in use %", lambda one: f"{100 * one.active / one.reserved:.1f}" if one.reserved > 0 else "-", 3),
    Column("stitches", lambda process: f"{process.stitches:,}", 3),
    Column("out of memory", _out_of_memory, 2, alarm=True),
)
