"""The verbs of the command line: one module each.

A verb's module has NAME, `add_arguments(parser)` and `run(args) -> exit status`; its docstring is its help.
"""

from __future__ import annotations

import argparse
from typing import Protocol

from gmlake.commands import compare, convert, doctor, fidelity, options, plot, replay, report, run, top, workloads


class Command(Protocol):
    """What every module in this package looks like."""

    NAME: str
    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work; returns the exit status."""


COMMANDS: tuple[Command, ...] = (run, compare, replay, report, plot, workloads, convert, fidelity, top, doctor, options)
