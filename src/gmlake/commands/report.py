"""Write a report: one HTML file that shows where the memory of a run goes.

An INPUT is a trace (as for gmlake replay: a PyTorch memory snapshot, an RMM log, GMLake's own format, the name of a
bundled trace), which is replayed on every allocator, or a file of results that gmlake replay, run or compare wrote with
--json. The report needs no network and no server: open it, mail it, keep it.

It shows what the run needs under each allocator, active and reserved memory over time, the memory map (which blocks
lie where in physical memory, stitched ones as the pieces they are made of), what is live at the peak and who asked for
it, sizes, lifetimes, fragmentation and driver calls.

examples:
  gmlake report snapshot.pickle -o report.html
      the usual allocators
  gmlake report run.gmt -o report.html --capacity 40GiB
      with the capacity, and where memory runs out
  gmlake report run.gmt -o report.html --allocator gmlake --allocator caching
      these two only
  gmlake run --emulate a100-80g --record run.gmt --stacks -- python train.py && gmlake report run.gmt -o report.html
      with call sites: which line of the program holds the memory at the peak?

exit status: 0; 1 for a failure; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from gmlake import report
from gmlake.commands.replay import (
    COST_TABLE,
    add_replay_arguments,
    allocators_asked,
    capacity_asked,
    check_jobs,
    validate,
)
from gmlake.errors import UserError
from gmlake.hints import mention_devices, operand
from gmlake.replay import Settings

NAME = "report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add = parser.add_argument
    add_inputs(parser)
    add("-o", "--output", metavar="FILE", type=Path, required=True, help="the report to write, an .html file")
    add("--title", metavar="TEXT", help="title of the page; default: the names of the traces")
    add("--smallest-capacity", action="store_true", help="also search the smallest capacity that completes (slower)")
    add("--json", action="store_true", help="print the results that the report shows, as gmlake replay --json does")
    add("-f", "--force", action="store_true", help="overwrite FILE if it exists")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """What to read and how to replay it; gmlake plot asks the same."""
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="trace, snapshot, bundled name, or saved results")
    add_replay_arguments(parser)


def inputs_again(args: argparse.Namespace) -> list[str]:
    """The words that ask for the same inputs, replayed in the same way."""
    words = [operand(name) for name in args.inputs]
    for spec in args.allocator or ():
        words += ["--allocator", spec]
    for option in ("capacity", "cost_table", "device"):
        value = getattr(args, option)
        if value is not None and value != COST_TABLE:
            words += [f"--{option.replace('_', '-')}", str(value)]
    return words


def settings_asked(args: argparse.Namespace) -> tuple[list[str], Settings]:
    """The allocators and how to replay; mistakes are found before anything is read."""
    check_jobs(args.jobs)
    allocators = allocators_asked(args.allocator)
    settings = Settings(
        capacity=capacity_asked(args.capacity),
        cost_table=args.cost_table,
        smallest_capacity=getattr(args, "smallest_capacity", False),
        memory_map=True,
    )
    validate(allocators, settings)
    return allocators, settings


def check_heeded(args: argparse.Namespace, subjects: Sequence[report.Subject]) -> None:
    """Refuse what is asked of a replay where nothing is replayed."""
    options = ("allocator", "capacity", "device", "smallest_capacity")
    asked = [name for name in options if getattr(args, name, None) not in (None, False)]
    asked += ["cost_table"] * (args.cost_table != COST_TABLE)
    if asked and all(subject.trace is None for subject in subjects):
        option = f"--{asked[0].replace('_', '-')}"
        raise UserError(f"{option} has no effect on saved results, which are shown as they are; give the trace instead")


def run(args: argparse.Namespace) -> int:
    """Gather, write, say where it is."""
    report.check_target(args.output, (".html", ".htm"), args.force)
    allocators, settings = settings_asked(args)
    subjects = report.gather(args.inputs, allocators, settings, args.device, args.jobs)
    check_heeded(args, subjects)
    mention_devices(subject.trace for subject in subjects if subject.trace is not None)
    report.write_subjects(subjects, args.output, args.title)
    if args.json:
        results = [result.to_json() for subject in subjects for result in subject.results]
        print(json.dumps({"report": str(args.output), "results": results}, indent=2))
        return 0
    for subject in subjects:
        print(f"{subject.name}: {report.headline(subject)}")
    size = args.output.stat().st_size / 2**20
    print(f"Report: {args.output} ({size:.1f} MiB). Open it in any browser; it needs no network.")
    return 0
