"""Run a command, on an emulated device if you like, and say what memory it needed.

The command is your own, unchanged. With --emulate the CUDA build of PyTorch runs on a device that exists only in
memory: no GPU is needed, allocations are all real, but nothing is computed and values are not real (see --compute).
Without it the command runs on the GPU that is there, and GMLake serves its memory. Its exit status becomes ours.

--allocator says who serves the memory: PyTorch's own allocator (torch), the same with expandable segments, or gmlake.
The default is gmlake on a real GPU, and on an emulated one torch, because there the question is what a job needs as
it is. A GMLAKE=1 or GMLAKE=0 in the environment goes before the default.

examples:
  gmlake run --emulate a100-80g -- python train.py
      what would this script need on an A100?
  gmlake run --emulate a100-80g --allocator gmlake -- python train.py
      and with GMLake?
  gmlake run --emulate a100-80g --record run.gmt -- python train.py
      the same, and keep a trace for gmlake replay
  gmlake run --emulate h100-80g --gpus 2 -- torchrun --nproc-per-node 2 train.py
      two processes on two emulated devices
  gmlake run --emulate a100-80g --world-size 64 --rank 0 -- python train.py
      one process stands for rank 0 of 64
  gmlake run -- torchrun --nproc-per-node 8 train.py
      train with GMLake
  gmlake run --record run.gmt -- python train.py
      record a run on a real GPU

exit status: that of the command; 128 + n if signal n killed it; 127 and 126 if it could not be found or started;
1 if a file could not be written in the end; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from gmlake.emulator import serving
from gmlake.emulator.arguments import (
    add_command,
    add_device_arguments,
    check_device_arguments,
    given_command,
    plan_of,
)
from gmlake.emulator.execution import Execution, NotStarted, execute
from gmlake.emulator.launch import ALLOCATORS, asks_for_gmlake
from gmlake.emulator.session import may_record_to
from gmlake.emulator.summary import show
from gmlake.errors import Error, UserError
from gmlake.output import check_target, write_whole
from gmlake.torch.activation import check_environment

NAME = "run"
_EMULATED_ONLY = ("hazards", "leaks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_device_arguments(parser)
    add = parser.add_argument
    add("--allocator", choices=ALLOCATORS, help="who serves the memory; default: gmlake, with --emulate torch")
    add("--record", metavar="TRACE", type=Path, help="write the allocator's history as a trace (.gmt)")
    add("--stacks", action="store_true", help="with --record, also where allocations come from (slower)")
    add("--hazards", action="store_true", help="report memory that two streams use without order")
    add("--leaks", action="store_true", help="report at the end what was not given back")
    add("--json", metavar="FILE", nargs="?", const="-", help="the report as JSON, to FILE or else to stdout")
    add("-f", "--force", action="store_true", help="overwrite TRACE and FILE if they exist")
    add_command(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command and report."""
    command = given_command(args, NAME)
    _check(args)
    session = Path(tempfile.mkdtemp(prefix="gmlake-"))
    try:
        plan = replace(
            plan_of(args, session),
            record=args.record,
            stacks=args.stacks,
            hazards=args.hazards,
            leaks=args.leaks,
            allocator=args.allocator,
        )
        if asks_for_gmlake(plan, os.environ):
            check_environment()  # the process would only warn, and be served by PyTorch
        done = execute(command, plan, os.environ, args.record)
        unwritten = [*_report(args, done), *done.findings.unwritten]
        served = serving.served_otherwise(args.allocator, done.findings.processes)
        if served is not None:
            _say(serving.explanation(args.allocator, served))
        explanation = done.explanation()
        if explanation is not None:
            _say(explanation)
        if unwritten:
            raise Error("; ".join(unwritten))
        return done.exit_status
    except NotStarted as error:
        _say(str(error))
        return error.status
    finally:
        shutil.rmtree(session, ignore_errors=True)


def _check(args: argparse.Namespace) -> None:
    """Find mistakes before anything runs."""
    check_device_arguments(args, _EMULATED_ONLY)
    report = None if args.json in (None, "-") else Path(args.json)
    if report is not None:
        check_target(report, args.force)
    if args.stacks and args.record is None:
        raise UserError("--stacks says where the allocations of a trace come from; add --record TRACE")
    if args.record is not None:
        _check_record(args.record, report, args.force)


def _check_record(record: Path, report: Path | None, force: bool) -> None:
    """Several devices or processes have a trace each, and none of their names may be taken."""
    if record.suffix != ".gmt":
        raise UserError(f"--record writes .gmt files, not '{record}'; gmlake convert makes others of them")
    if report is not None and may_record_to(report, record):
        raise UserError(f"{report} may become a trace of --record {record}; choose another name for --json")
    check_target(record, force)
    for path in sorted(record.parent.iterdir()):
        if may_record_to(path, record):
            check_target(path, force)


def _report(args: argparse.Namespace, done: Execution) -> list[str]:
    """Say what was found; returns what could not be written, in which case people see it all the same."""
    sys.stdout.flush()
    if args.json is None:
        show(done.findings, done.plan)
        return []
    report = {"status": done.status, "emulated": done.plan.emulated_json(), **done.findings.to_json()}
    text = json.dumps(report, indent=2)
    try:
        if args.json == "-":
            print(text)
        else:
            write_whole(Path(args.json), f"{text}\n".encode())
    except UserError as error:
        show(done.findings, done.plan)
        return [str(error)]
    return []


def _say(sentence: str) -> None:
    print(f"gmlake: {sentence}", file=sys.stderr)
