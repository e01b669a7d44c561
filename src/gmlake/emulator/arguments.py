"""What every verb that runs a command is told: on which device, and which command. From arguments to a Plan.

The options that only one verb has are declared there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gmlake import _core
from gmlake.emulator.devices import device_keys, find_device
from gmlake.emulator.launch import MOST_GPUS, Plan, default_gpus
from gmlake.errors import UserError

# Microseconds, a minute: emulated time counts nanoseconds in 64 bits, and 300 million kernels as long as this fit.
LONGEST_KERNEL = 60_000_000
_EMULATED_ONLY = ("gpus", "memory", "world_size", "compute", "kernel_us")


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what says on which device the command runs."""
    add = parser.add_argument
    add("--emulate", metavar="DEVICE", help=f"one of {', '.join(device_keys())}")
    add("--gpus", metavar="N", type=int, help="emulated devices; default: 1, or those of a node with --world-size")
    add("--memory", metavar="SIZE", help="memory of each device, like 24GiB; default: the card's")
    add("--world-size", metavar="N", type=int, help="the process stands for one rank of so many")
    add("--rank", metavar="R", type=int, help="which one; default: 0")
    add("--compute", action="store_true", help="compute on the CPU what the device would, so that values are real")
    add("--kernel-us", metavar="X", type=float, help="time that a kernel takes on the device; default: 0")


def add_command(parser: argparse.ArgumentParser) -> None:
    """Declare the command, which takes all that is left."""
    parser.add_argument(
        "command", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="what to run, with its arguments"
    )


def given_command(args: argparse.Namespace, verb: str) -> list[str]:
    """The command with its arguments."""
    command: list[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UserError(
            f"there is no command to run; give it after two dashes, as in: gmlake {verb} -- python train.py"
        )
    if not command[0]:
        raise UserError(f"the command to run is empty; give its name, as in: gmlake {verb} -- python train.py")
    return command


def check_device_arguments(args: argparse.Namespace, emulated_only: Sequence[str] = ()) -> None:
    """Find mistakes before anything runs; `emulated_only` are the verb's own options that need --emulate."""
    for name in (*_EMULATED_ONLY, *emulated_only):
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
    if args.kernel_us is not None and not 0 <= args.kernel_us <= LONGEST_KERNEL:
        raise UserError(
            f"--kernel-us needs microseconds from 0 to {LONGEST_KERNEL}, which is a minute, not {args.kernel_us}"
        )


def plan_of(args: argparse.Namespace, session: Path) -> Plan:
    """The run that the arguments ask for."""
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
        kernel_us=args.kernel_us or 0.0,
    )
