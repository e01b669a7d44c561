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

exit status: that of the command; 128 + n if signal n killed it; 127 and 126 if it
could not be found or started; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from gmlake import _core
from gmlake.emulator.devices import device_keys, find_device
from gmlake.emulator.launch import ALLOCATORS, MOST_GPUS, Plan, default_gpus, environment
from gmlake.emulator.process import killed_for_memory, run_child
from gmlake.emulator.session import Findings, gather
from gmlake.emulator.summary import show
from gmlake.errors import UserError

NAME = "run"
NOT_FOUND, NOT_STARTED = 127, 126
_EMULATED_ONLY = ("gpus", "memory", "world_size", "compute", "kernel_us", "hazards", "leaks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add = parser.add_argument
    add("--emulate", metavar="DEVICE", help=f"one of {', '.join(device_keys())}")
    add("--gpus", metavar="N", type=int, help="emulated devices; default: 1, or those of a node with --world-size")
    add("--memory", metavar="SIZE", help="memory of each device, like 24GiB; default: the card's")
    add("--allocator", choices=ALLOCATORS, help="who serves the memory; default: gmlake, with --emulate torch")
    add("--world-size", metavar="N", type=int, help="the process stands for one rank of so many")
    add("--rank", metavar="R", type=int, help="which one; default: 0")
    add("--compute", action="store_true", help="compute on the CPU what the device would, so that values are real")
    add("--record", metavar="TRACE", type=Path, help="write the allocator's history as a trace (.gmt)")
    add("--stacks", action="store_true", help="also record where allocations come from (slower)")
    add("--kernel-us", metavar="X", type=float, help="time that a kernel takes on the device; default: 0")
    add("--hazards", action="store_true", help="report memory that two streams use without order")
    add("--leaks", action="store_true", help="report at the end what was not given back")
    add("--json", metavar="FILE", nargs="?", const="-", help="the report as JSON, to FILE or else to stdout")
    add("-f", "--force", action="store_true", help="overwrite TRACE and FILE if they exist")
    add("command", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="what to run, with its arguments")


def run(args: argparse.Namespace) -> int:
    """Run the command and report."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UserError("there is no command to run; give it after two dashes, as in: gmlake run -- python train.py")
    _check(args)
    session = Path(tempfile.mkdtemp(prefix="gmlake-"))
    try:
        plan = _plan(args, session)
        child = environment(plan, os.environ)
        killed = killed_for_memory()
        try:
            status = run_child(command, child)
        except OSError as error:
            return _not_started(command[0], error)
        findings = gather(session, args.record)
        _report(args, plan, findings, status)
        return _explain(status, findings, plan, killed_for_memory() > killed)
    finally:
        shutil.rmtree(session, ignore_errors=True)


def _check(args: argparse.Namespace) -> None:
    """Find mistakes before anything runs."""
    for name in _EMULATED_ONLY:
        if getattr(args, name) and args.emulate is None:
            raise UserError(f"--{name.replace('_', '-')} is for an emulated device; add --emulate DEVICE")
    if args.gpus is not None and not 1 <= args.gpus <= MOST_GPUS:
        raise UserError(f"--gpus needs a number from 1 to {MOST_GPUS}, not {args.gpus}")
    if args.world_size is not None and args.world_size < 1:
        raise UserError(f"--world-size needs a number of 1 or more, not {args.world_size}")
    if args.rank is not None and args.world_size is None:
        raise UserError("--rank says which of --world-size N ranks to run; give both")
    if args.rank is not None and not 0 <= args.rank < args.world_size:
        raise UserError(
            f"--rank is from 0 to {args.world_size - 1} with --world-size {args.world_size}, not {args.rank}"
        )
    if args.kernel_us is not None and args.kernel_us < 0:
        raise UserError(f"--kernel-us needs a time of 0 or more, not {args.kernel_us}")
    if args.record is not None and args.record.suffix != ".gmt":
        raise UserError(f"--record writes .gmt files, not '{args.record}'; gmlake convert makes others of them")
    targets = [args.record, None if args.json in (None, "-") else Path(args.json)]
    for target in filter(None, targets):
        if target.exists() and not args.force:
            raise UserError(f"{target} exists already: choose another name, or overwrite it with -f")
        if not target.parent.is_dir():
            raise UserError(f"{target} cannot be written: there is no folder {target.parent}")


def _plan(args: argparse.Namespace, session: Path) -> Plan:
    device = None if args.emulate is None else find_device(args.emulate)
    if device is not None and args.memory is not None:
        memory = _core.parse_bytes(args.memory)
        if memory == 0:
            raise UserError(f"--memory needs a size above zero, not '{args.memory}'")
        device = device.with_memory(memory)
    return Plan(
        session=session,
        device=device,
        gpus=default_gpus(args.world_size) if args.gpus is None else args.gpus,
        world_size=args.world_size,
        rank=args.rank or 0,
        compute=args.compute,
        record=args.record,
        stacks=args.stacks,
        kernel_us=args.kernel_us or 0.0,
        hazards=args.hazards,
        leaks=args.leaks,
        allocator=args.allocator,
    )


def _report(args: argparse.Namespace, plan: Plan, findings: Findings, status: int) -> None:
    sys.stdout.flush()
    if args.json is None:
        show(findings, plan)
        return
    emulated: dict[str, Any] | None = None
    if plan.device is not None:
        emulated = {"device": plan.device.key, "memory": plan.device.memory, "gpus": plan.gpus}
    text = json.dumps({"status": status, "emulated": emulated, **findings.to_json()}, indent=2)
    if args.json == "-":
        print(text)
    else:
        Path(args.json).write_text(text + "\n")


def _not_started(name: str, error: OSError) -> int:
    if isinstance(error, FileNotFoundError):
        _say(f"there is no command '{name}' in PATH nor at that place")
        return NOT_FOUND
    _say(f"'{name}' cannot be started: {error.strerror}; is it a script? Then try: gmlake run ... -- python {name}")
    return NOT_STARTED


def _explain(status: int, findings: Findings, plan: Plan, memory_ran_out: bool) -> int:
    """One sentence about an end that the command may not have explained itself; returns the exit status."""
    ended = [process["ended"] for process in findings.processes if process["ended"]]
    where = "the emulated device" if plan.device is not None else "the device"
    if status == -signal.SIGKILL or (status != 0 and memory_ran_out):
        sure = (
            "because this machine ran out of memory" if memory_ran_out else "perhaps for lack of memory on this machine"
        )
        what = "run it without --compute, or make it smaller" if plan.compute else "make it smaller, or free memory"
        _say(f"the command, or a process of it, was killed with SIGKILL {sure}; {what}")
    elif status < 0:
        name = signal.Signals(-status).name
        advice = "see with PYTHONFAULTHANDLER=1 where it was" if -status in _CRASHES else "somebody sent it that signal"
        _say(f"the command was ended by {name}; {advice}")
    elif any("MemoryError" in text and "OutOfMemory" not in text for text in ended):
        _say("this machine has not enough memory for what the command keeps outside of the device; make it smaller")
    elif any("OutOfMemoryError" in text for text in ended):
        other = (
            ""
            if any(process.get("backend") == "gmlake" for process in findings.processes)
            else ", or --allocator gmlake"
        )
        _say(f"memory of {where} ran out; try a larger one{other}")
    return status if status >= 0 else 128 - status


_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


def _say(sentence: str) -> None:
    print(f"gmlake: {sentence}", file=sys.stderr)
