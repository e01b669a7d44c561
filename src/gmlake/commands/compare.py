"""Run a command once per allocator and compare what memory it needed.

The command is your own, unchanged, and runs to its end each time: with PyTorch's own allocator (torch), the same with
expandable segments, and gmlake. With --emulate no GPU is needed; without it the runs are on the GPU that is there, and
the table also says how long they took. What the command writes is not shown unless it fails or --verbose is given.

examples:
  gmlake compare --emulate a100-80g -- python train.py
      how much less memory would this script need with GMLake?
  gmlake compare --emulate a100-80g --memory 24GiB -- python train.py
      with which allocators does it fit into 24 GiB?
  gmlake compare --emulate a100-80g --smallest-memory -- python train.py
      what is the smallest memory on which each of them completes? (some ten runs more)
  gmlake compare --emulate h100-80g --gpus 2 -- torchrun --nproc-per-node 2 train.py
      two processes on two emulated devices
  gmlake compare --emulate a100-80g --keep runs -- python train.py
      also keep the outputs and traces of the runs, as runs/torch.log and runs/torch.gmt
  gmlake compare --emulate a100-80g --html page.html -- python train.py
      also draw where the memory goes under each of them
  gmlake compare --allocator torch --allocator gmlake -- python train.py
      on the GPU of this machine

exit status: 0, also if some or all runs went out of memory (the table says so); 1 if the command
failed in another way; 127 and 126 if it could not be found or started; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gmlake import report
from gmlake.comparison import smallest
from gmlake.comparison.display import Display
from gmlake.comparison.table import saving, show
from gmlake.comparison.trials import COMPLETED, FAILED, Stopped, Trial, Trials, check_used
from gmlake.emulator.arguments import (
    add_command,
    add_device_arguments,
    check_device_arguments,
    given_command,
    plan_of,
)
from gmlake.emulator.execution import NotStarted, check_command
from gmlake.emulator.launch import ALLOCATORS, environment
from gmlake.emulator.summary import NO_GPU, WIDTH, lacks_gpu
from gmlake.errors import Error, UserError
from gmlake.hints import again, operand, show_next
from gmlake.output import check_target, write_whole
from gmlake.torch.activation import check_environment
from gmlake.trace import read_trace

NAME = "compare"
_REPLAYED = {"torch": "caching"}  # as gmlake replay calls it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_device_arguments(parser)
    add = parser.add_argument
    add(
        "--allocator",
        choices=ALLOCATORS,
        action="append",
        help=f"may be repeated; default: {', '.join(ALLOCATORS)}",
    )
    add("--smallest-memory", action="store_true", help="search the smallest memory that completes (several runs more)")
    add("--keep", metavar="FOLDER", type=Path, help="keep each run's output and trace there (.log and .gmt)")
    add("-v", "--verbose", action="store_true", help="show what the command writes, on stderr")
    add("--json", metavar="FILE", nargs="?", const="-", help="the comparison as JSON, to FILE or else to stdout")
    add("--html", metavar="PAGE", type=Path, help="also draw the run, as gmlake report does (records it: slower)")
    add("-f", "--force", action="store_true", help="overwrite FILE, PAGE and what is in FOLDER, if they exist")
    add_command(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command under every allocator, and compare."""
    command = given_command(args, NAME)
    allocators = list(dict.fromkeys(args.allocator or ALLOCATORS))
    _check(args)
    if "gmlake" in allocators:
        check_environment()  # else its run would fail after all the others
    plan = plan_of(args, Path())
    try:
        # What a run lacks on this machine is found before the folder is touched.
        check_command(command, environment(plan, os.environ))
        if args.keep is not None:
            _prepare(args.keep, allocators, args.force)
        with tempfile.TemporaryDirectory(prefix="gmlake-") as folder:
            kept = args.keep or (Path(folder) if args.html else None)
            with Display(quiet=args.verbose) as display:
                trials = _run_all(Trials(command, plan, display, args.verbose, kept), allocators, args.smallest_memory)
            return _report(args, trials)
    except NotStarted as error:
        print(f"gmlake: {error}", file=sys.stderr)
        return error.status
    except Stopped as stopped:
        if stopped.signal == signal.SIGINT:
            raise KeyboardInterrupt from None
        return 128 + stopped.signal


def _run_all(trials: Trials, allocators: list[str], smallest_memory: bool) -> list[Trial]:
    count = len(allocators)
    done = [
        trials.run(allocator, f"{number} of {count}, {allocator}") for number, allocator in enumerate(allocators, 1)
    ]
    return [smallest.search(trials, trial) for trial in done] if smallest_memory else done


def _check(args: argparse.Namespace) -> None:
    """Find mistakes before anything runs."""
    check_device_arguments(args, ["smallest_memory"])
    if args.json not in (None, "-"):
        check_target(Path(args.json), args.force)
    if args.html is not None:
        report.check_target(args.html, (".html", ".htm"), args.force)
        if args.json is not None and Path(args.json).resolve() == args.html.resolve():
            raise UserError(f"--json and --html cannot both be {args.html}; choose another name for one of them")


def _prepare(folder: Path, allocators: list[str], force: bool) -> None:
    """Make the folder for outputs and traces; what an earlier comparison left there goes with -f only."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--keep needs a folder, and {folder} is a file")
    if not folder.parent.is_dir():
        raise UserError(f"{folder} cannot be made: there is no folder {folder.parent}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror}") from None
    kept = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in (".log", ".gmt") and path.name.split(".")[0] in allocators
    ]
    for path in (*kept, folder / f"{allocators[0]}.log"):
        check_target(path, force)
    for path in kept:
        path.unlink()


def _report(args: argparse.Namespace, trials: list[Trial]) -> int:
    failed = [trial for trial in trials if trial.outcome == FAILED]
    everywhere = len(failed) == len(trials)
    if not args.verbose:
        for trial in failed[:1] if everywhere else failed:
            print(f"The last lines with {trial.allocator}:", *trial.last_lines, sep="\n  ", file=sys.stderr)
    if everywhere:
        explanation = failed[0].done.explanation() or f"it ended with status {failed[0].done.exit_status}"
        if lacks_gpu(failed[0].done.plan):
            explanation += f"; {NO_GPU}"
        raise Error(f"the command fails, whatever the allocator: {explanation}")
    check_used(trials)
    unwritten = _tell(args, trials)
    lost = [sentence for trial in trials for sentence in trial.done.findings.unwritten]
    if args.html is not None and not lost:
        _write_html(args, trials)
    if unwritten or lost:
        raise Error("; ".join([*unwritten, *lost]))
    return 1 if failed else 0


def _tell(args: argparse.Namespace, trials: list[Trial]) -> list[str]:
    """Say what was found; returns what could not be written, in which case people see it all the same."""
    console = Console(highlight=False, soft_wrap=True, width=WIDTH)
    if args.json is None:
        show(trials, console)
        _hints(args, trials, console)
        return []
    try:
        _write_json(args, trials)
    except UserError as error:
        show(trials, console)
        return [str(error)]
    return []


def _write_json(args: argparse.Namespace, trials: list[Trial]) -> None:
    plan = trials[0].done.plan
    text = json.dumps(
        {
            "emulated": plan.emulated_json(),
            "runs": [trial.to_json(kept=args.keep is not None) for trial in trials],
            "saving": saving(trials),
        },
        indent=2,
    )
    if args.json == "-":
        print(text)
    else:
        write_whole(Path(args.json), f"{text}\n".encode())


def _write_html(args: argparse.Namespace, trials: list[Trial]) -> None:
    """What one run asked for, drawn as the allocators of the comparison serve it."""
    recorded = next((trial for trial in trials if trial.outcome == COMPLETED), trials[0])
    command = given_command(args, NAME)
    script = next((Path(word).name for word in command if word.endswith(".py")), command[0])
    traces = []
    for file in recorded.done.findings.traces:
        whose = Path(file.path).stem.split(".")[1:]  # of several: rank1, gpu0
        traces.append(replace(read_trace(file.path), name=", ".join([script, *whose])))
    report.write(
        traces,
        args.html,
        allocators=[_REPLAYED.get(trial.allocator, trial.allocator) for trial in trials],
        title=shlex.join(command),
        force=args.force,
    )
    print(f"Report: {args.html}. Open it in any browser; it needs no network.", file=sys.stderr)


def _hints(args: argparse.Namespace, trials: list[Trial], console: Console) -> None:
    traces = [trace.path for trial in trials for trace in trial.done.findings.traces]
    if traces and args.keep is not None:
        show_next(console, ["gmlake", "replay", operand(traces[0])])
    elif args.emulate is not None and not args.smallest_memory and any(t.outcome == COMPLETED for t in trials):
        over = ["-f"] if (args.html or args.keep) and not args.force else []  # what this run wrote is there by then
        show_next(console, again("--smallest-memory", *over))
