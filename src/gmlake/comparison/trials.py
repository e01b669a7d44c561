"""The runs of a comparison: the same command, the same device, one allocator after the other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmlake.comparison.display import Display
from gmlake.comparison.output import Output
from gmlake.emulator.execution import Execution, execute
from gmlake.emulator.launch import ALLOCATORS, CACHES, Plan
from gmlake.emulator.serving import explanation, served_otherwise
from gmlake.errors import UserError

LAST_LINES = 15
COMPLETED, OUT_OF_MEMORY, FAILED = "completed", "out of memory", "failed"


class Stopped(Exception):
    """A signal asked us to end, and the command with us."""

    def __init__(self, signal: int) -> None:
        """The signal's number."""
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


@dataclass(frozen=True)
class Trial:
    """One run."""

    allocator: str
    done: Execution
    last_lines: list[str]
    smallest_memory: int | None = None  # on which it completes, where that was searched

    @property
    def outcome(self) -> str:
        """Running out of memory is an answer, anything else that goes wrong is not."""
        if self.done.status == 0:
            return COMPLETED
        return OUT_OF_MEMORY if self.done.out_of_memory else FAILED

    @property
    def rows(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The peaks by process and device. Processes have their ranks as names, or else their places in the order."""
        processes = self.done.findings.processes
        found = {}
        for number, process in enumerate(processes):
            name = f"process {number + 1}" if process["rank"] is None else f"rank {process['rank']}"
            for row in process.get("devices", ()):
                found[name, row["device"]] = row
        return found

    @property
    def reserved(self) -> int:
        """What the process that needs most memory of a device has reserved of it."""
        return max((reserved_of(row) for row in self.rows.values()), default=0)

    @property
    def requested(self) -> int:
        """The same for what was asked for."""
        return max((row["peak_requested"] or 0 for row in self.rows.values()), default=0)

    def to_json(self, kept: bool) -> dict[str, Any]:
        """Plain data; traces are named only if they were kept, for those that were not are gone by then."""
        findings = self.done.findings if kept else replace(self.done.findings, traces=[])
        timed = self.done.plan.device is None  # how long an emulated device takes means nothing
        return {
            "allocator": self.allocator,
            "outcome": self.outcome,
            "status": self.done.exit_status,
            "seconds": self.done.seconds if timed else None,
            "smallest_memory": self.smallest_memory,
            "last_lines": [] if self.outcome == COMPLETED else self.last_lines,
            **findings.to_json(),
        }


def reserved_of(row: dict[str, Any]) -> int:
    """A row's reserved bytes; of an allocator that keeps no statistics, what it took from the device."""
    return int(row["peak_reserved"] or row["peak_on_device"] or 0)


@dataclass(frozen=True)
class Trials:
    """How to run a trial, again and again."""

    command: Sequence[str]
    plan: Plan  # without an allocator, and every run has a session of its own
    display: Display
    verbose: bool = False
    kept: Path | None = None  # a folder for outputs and traces

    def run(self, allocator: str, title: str, memory: int | None = None) -> Trial:
        """Run the command with this allocator, on a device with other memory if you like, which keeps nothing."""
        kept = self.kept if memory is None else None
        with tempfile.TemporaryDirectory(prefix="gmlake-") as folder:
            session = Path(folder)
            plan = replace(
                self.plan,
                session=session,
                allocator=allocator,
                device=self.plan.device and self.plan.device.with_memory(memory),
                record=None if kept is None else kept / f"{allocator}.gmt",
            )
            path = session / "output.log" if kept is None else kept / f"{allocator}.log"
            with Output(path, self.verbose) as output:
                tick = self.display.begin(title, output)
                done = execute(self.command, plan, _environment(allocator, session), plan.record, output.file, tick)
            if done.stopped_by is not None:
                raise Stopped(done.stopped_by)
            trial = Trial(allocator, done, output.last_lines(LAST_LINES))
            if trial.outcome == FAILED:
                output.check_whole()
            else:
                _check_served(trial)
            return trial


def _check_served(trial: Trial) -> None:
    """Its figures must be those of the allocator that they are shown for."""
    served = served_otherwise(trial.allocator, trial.done.findings.processes)
    if served is None:
        return
    others = [name for name in ALLOCATORS if name != trial.allocator]
    leave_out = f", or compare the others: {' '.join(f'--allocator {name}' for name in others)}"
    both_pytorch = {trial.allocator, served} == {"torch", "expandable"}
    raise UserError(explanation(trial.allocator, served) + (leave_out if both_pytorch else ""))


def check_used(trials: Sequence[Trial]) -> None:
    """Is there anything to compare?"""
    if any(trial.rows for trial in trials):
        return
    emulated = trials[0].done.plan.device is not None
    hint = "does it ask for one?" if emulated else "is there a GPU? Without one, add --emulate a100-80g"
    raise UserError(f"no process of the command used CUDA, so that there is nothing to compare; {hint}")


def _environment(allocator: str, session: Path) -> dict[str, str]:
    """Ours, such that GMLake either serves the run or ends it, and that lines arrive when they are written.

    Every run compiles for itself: else only the first would need the memory for it.
    """
    caches = {name: str(session / folder) for name, folder in CACHES.items()}
    strict = {"GMLAKE": "strict"} if allocator == "gmlake" else {}
    return {**os.environ, **caches, "PYTHONUNBUFFERED": "1", **strict}
