"""Does the simulated PyTorch allocator decide as the real one did?

What `gmlake replay` says of `caching` is worth as much as its likeness to PyTorch's allocator. A memory snapshot tells:
it has the address of every allocation and every segment that PyTorch asked the GPU for. The state at the beginning of
the history is rebuilt, the recorded requests are made again, and every decision is compared. One that differs is
counted and put right, so that it does not make others differ.

examples:
  gmlake fidelity snapshot.pickle
  gmlake fidelity *.json.gz --json

exit status: 0, whatever differs; 2 for bad input, which a history of expandable segments is too.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from gmlake.hints import operand, show_next
from gmlake.replay.fidelity import Fidelity, check_history
from gmlake.terminal import print_whole, standard_output
from gmlake.trace import names_of
from gmlake.waiting import waiting

NAME = "fidelity"
_SHOWN = 5  # differences of a history


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("snapshots", metavar="SNAPSHOT", nargs="+", help="a memory snapshot of PyTorch with a history")
    parser.add_argument("--device", metavar="N", type=int, help="device of the snapshots (default: most events)")
    parser.add_argument("--json", action="store_true", help="print the figures and all differences as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare, and say how much was the same."""
    names = names_of(args.snapshots)
    with waiting("reading", *args.snapshots):
        found = {name: check_history(source, args.device) for name, source in zip(names, args.snapshots, strict=True)}
    if args.json:
        print(json.dumps({"histories": [{"history": name, **asdict(report)} for name, report in found.items()]}))
        return 0
    console = standard_output()
    print_whole(_table(found), console)
    console.print()
    for name, report in found.items():
        for difference in report.differences[:_SHOWN]:
            console.print(Text(f"{name}, event {difference.event:,}: {difference.what}"), style="yellow")
        if len(report.differences) > _SHOWN:
            console.print(Text(f"{name}: {len(report.differences) - _SHOWN:,} more, see --json"), style="yellow")
    if all(report.exact for report in found.values()):
        console.print("Every decision is the one that PyTorch took.", style="bold")
    show_next(console, ["gmlake", "replay", *map(operand, args.snapshots)])
    return 0


def _table(found: dict[str, Fidelity]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1), pad_edge=False)
    table.add_column("history", no_wrap=True)
    for head in ("events", "allocations\nwhere PyTorch\nhad them", "segments asked\nfor, given back\nas by PyTorch"):
        table.add_column(head, justify="right", vertical="bottom")
    table.add_column("differences", justify="right", vertical="bottom")
    for name, report in found.items():
        table.add_row(
            Text(name),
            f"{report.events:,}",
            f"{report.allocations_at_address:,} of {report.allocations:,}",
            f"{report.segment_events_reproduced:,} of {report.segment_events:,}",
            f"{len(report.differences):,}",
        )
    return table
