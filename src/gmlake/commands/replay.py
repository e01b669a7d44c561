"""Replay traces on several allocators and compare what they need.

A TRACE is a PyTorch memory snapshot (pickle or JSON, also gzipped), an RMM log,
an .npz of columns, GMLake's own format, or the name of a bundled trace. Each is
fed, event by event, to every allocator on a simulated device. Times of driver
calls are modelled from published measurements; no GPU is needed or used.

examples:
  gmlake replay snapshot.pickle
      the usual comparison: gmlake, PyTorch with expandable segments, PyTorch's
      default, GMLake as published
  gmlake replay snapshot.pickle --smallest-capacity
      also: on how small a device does each of them complete?
  gmlake replay *.pickle --capacity 40GiB --allocator gmlake --allocator caching
      would these runs have fitted on 40 GiB?
  gmlake replay run.npz --allocator caching:max_split_size_mb=128 --allocator caching
      what does an option change? (`gmlake options` lists them)
  gmlake replay run.npz --timeline run.csv
      allocated, active and reserved bytes over time, for plotting

exit status: 0, also if an allocator ran out of memory (the table says so);
1 for a failure; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gmlake import _core
from gmlake.errors import UserError
from gmlake.hints import again, mention_devices, show_next, unused
from gmlake.replay import ALLOCATORS, Settings, sweep
from gmlake.replay.progress import ProgressDisplay
from gmlake.replay.table import show
from gmlake.replay.timeline import check_target, write_timelines
from gmlake.terminal import standard_output
from gmlake.trace import read_traces
from gmlake.waiting import waiting

NAME = "replay"
COST_TABLE = "a100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add = parser.add_argument
    add("traces", metavar="TRACE", nargs="+", help="file or name of a bundled trace")
    add_replay_arguments(parser)
    add("--smallest-capacity", action="store_true", help="search the smallest capacity that completes (slower)")
    add("--check", action="store_true", help="verify the allocators' invariants during the replay (slower)")
    add("--calls", action="store_true", help="show driver calls by kind, as is done for a single trace anyway")
    add("--json", action="store_true", help='print {"results": [...]} and nothing else')
    add("--timeline", metavar="FILE", type=Path, help="write the timeline; .csv or .json says in which form")
    add("-f", "--force", action="store_true", help="overwrite the timeline if it exists")


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    """How to replay; gmlake report and gmlake plot ask the same."""
    add = parser.add_argument
    add(
        "--allocator",
        metavar="NAME[:OPTION=VALUE,...]",
        action="append",
        help=f"may be repeated; 'all' means every allocator; default: {', '.join(ALLOCATORS)}",
    )
    add("--capacity", metavar="SIZE", help="memory of the simulated device, like 80GiB; default: without end")
    tables = ", ".join(table.name for table in _core.cost_tables())
    text = f"modelled cost of driver calls: one of {tables}; default: {COST_TABLE}"
    add("--cost-table", metavar="NAME", default=COST_TABLE, help=text)
    add("--device", metavar="N", type=int, help="which device of a snapshot of several; default: that with most events")
    add("--jobs", metavar="N", type=int, help="replays at the same time; default: one per core")


def run(args: argparse.Namespace) -> int:
    """Replay and print."""
    check_jobs(args.jobs)
    if args.timeline is not None:
        check_target(args.timeline, args.force)
    allocators = allocators_asked(args.allocator)
    settings = Settings(
        capacity=capacity_asked(args.capacity),
        cost_table=args.cost_table,
        check=args.check,
        timeline=args.timeline is not None,
        smallest_capacity=args.smallest_capacity,
    )
    validate(allocators, settings)
    with waiting("reading", *args.traces):
        traces = read_traces(args.traces, device=args.device)
    mention_devices(traces)
    with ProgressDisplay(len(traces) * len(allocators)) as display:
        runs = sweep(traces, allocators, settings, args.jobs, display)
    if args.timeline is not None:
        write_timelines(args.timeline, runs)
    results = [run.result for run in runs]
    if args.json:
        print(json.dumps({"results": [result.to_json() for result in results]}, indent=2))
    else:
        console = standard_output()
        show(traces, results, console, calls=args.calls or len(traces) == 1)
        _hints(console, args)
    return 0


def check_jobs(jobs: int | None) -> None:
    """Refuse a number that --jobs cannot be."""
    if jobs is not None and jobs < 1:
        raise UserError(f"--jobs needs a number of 1 or more, not {jobs}")


def allocators_asked(asked: Sequence[str] | None) -> list[str]:
    """The allocators that --allocator names, 'all' spelt out."""
    specs: list[str] = []
    for spec in asked or ALLOCATORS:
        specs += [row.name for row in _core.catalogue()] if spec == "all" else [spec]
    return list(dict.fromkeys(specs))


def capacity_asked(text: str | None) -> int | None:
    """The size that --capacity names."""
    if text is None:
        return None
    capacity = _core.parse_bytes(text)
    if capacity == 0:
        raise UserError(f"--capacity needs a size above zero, not '{text}'")
    return capacity


def validate(allocators: Sequence[str], settings: Settings) -> None:
    """Find a misspelt allocator, option or cost table before traces are read."""
    driver = _core.SimulatedDriver(cost_table=settings.cost_table)
    for spec in allocators:
        _core.make_allocator(spec, driver)


def _hints(console: Console, args: argparse.Namespace) -> None:
    console.print("Driver times are modelled, not measured; memory figures do not depend on them.", style="dim")
    if args.timeline is not None:
        console.print(Text(f"Timeline written to {args.timeline}."), style="dim", soft_wrap=True)
    if not args.smallest_capacity:
        over = ["-f"] if args.timeline is not None and not args.force else []  # it is there by then
        show_next(console, again("--smallest-capacity", *over))
    elif args.timeline is None:
        show_next(console, again("--timeline", unused("timeline.csv")))
