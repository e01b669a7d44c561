"""List every option of every allocator: value, where the value comes from, meaning.

A process that gmlake serves reads its options from the environment, as
GMLAKE_<OPTION>. A replay does not: there, options of any allocator are given as
NAME:OPTION=VALUE,OPTION=VALUE.

examples:
  gmlake options
  gmlake options caching
  GMLAKE_TARGET=0.99 gmlake options gmlake
  gmlake options --json

exit status: 0; 2 for bad input, also if a GMLAKE_ variable of the environment is unknown or makes no sense.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass

from rich.table import Table

from gmlake import _core
from gmlake.errors import UserError
from gmlake.terminal import standard_output
from gmlake.torch.activation import check_environment

NAME = "options"
OURS = "gmlake"
NARROW = 72  # columns of a terminal


@dataclass(frozen=True)
class Setting:
    """One option as it stands."""

    allocator: str
    name: str
    value: str
    origin: str  # "default", or the environment variable
    meaning: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("allocators", metavar="ALLOCATOR", nargs="*", help="default: all of them")
    parser.add_argument("--json", action="store_true", help='print {"options": [...]} and nothing else')


def run(args: argparse.Namespace) -> int:
    """Print the options."""
    rows = {row.name: row for row in _core.catalogue()}
    for name in args.allocators:
        if name not in rows:
            raise UserError(f"unknown allocator '{name}'; the allocators are {', '.join(rows)}")
    chosen = [rows[name] for name in args.allocators or rows]
    settings = [setting for row in chosen for setting in settings_of(row)]
    if args.json:
        print(json.dumps({"options": [asdict(setting) for setting in settings]}, indent=2))
    else:
        _show(chosen, settings)
    if any(row.name == OURS for row in chosen):
        sys.stdout.flush()
        check_environment()  # after the list, in which the right name may be found
    return 0


def settings_of(row: _core.CatalogueRow) -> list[Setting]:
    """The options of one allocator."""
    return [_setting(row.name, option) for option in row.options]


def _setting(allocator: str, option: _core.OptionRow) -> Setting:
    variable = f"GMLAKE_{option.name.upper()}"
    value = os.environ.get(variable) if allocator == OURS else None
    if value is None:
        return Setting(allocator, option.name, option.fallback, "default", option.meaning)
    return Setting(allocator, option.name, value, variable, option.meaning)


def _show(rows: list[_core.CatalogueRow], settings: list[Setting]) -> None:
    console = standard_output()
    for row in rows:
        console.print(f"[bold cyan]{row.name}[/]  {row.meaning}")
        if console.width < NARROW:  # a column of meanings would be a few letters wide
            for setting in settings:
                if setting.allocator == row.name:
                    console.print(f"{setting.name} = {setting.value}  [dim]{setting.origin}[/]\n  {setting.meaning}")
            console.print()
            continue
        table = Table(box=None, header_style="dim", padding=(0, 1))
        for head in ("option", "value", "origin", "meaning"):
            table.add_column(head, overflow="fold", no_wrap=head == "option")
        for setting in settings:
            if setting.allocator == row.name:
                table.add_row(setting.name, setting.value, setting.origin, setting.meaning)
        if table.rows:
            console.print(table)
        console.print()
