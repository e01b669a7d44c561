"""One run of a command, from its plan to what is known about it when it is over."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gmlake import _core
from gmlake.emulator.launch import Plan, environment
from gmlake.emulator.process import killed_for_memory, run_child
from gmlake.emulator.session import Findings, gather

_NOT_FOUND, _CANNOT_START = 127, 126
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
_WORTH_A_TRY = 64 << 20  # bytes that lay idle when memory ran out


class NotStarted(Exception):
    """The command does not exist or cannot be executed; the message says which, `status` is what a shell would say."""

    def __init__(self, name: str, error: OSError) -> None:
        """`name` is the first word of the command."""
        if isinstance(error, FileNotFoundError):
            here = f"; {name} lies in this folder, try: python {name}" if Path(name).is_file() else ""
            super().__init__(f"there is no command '{name}' in PATH{here or ' nor at that place'}")
            self.status = _NOT_FOUND
            return
        self.status = _CANNOT_START
        if Path(name).is_dir():
            super().__init__(f"'{name}' cannot be started: it is a folder; name a command or a script in it")
        else:
            super().__init__(f"'{name}' cannot be started: {error.strerror}; is it a script? Then try: python {name}")


@dataclass(frozen=True)
class Execution:
    """A run that is over."""

    plan: Plan
    status: int  # the command's, or minus the signal that killed it
    seconds: float  # from its start to its end
    stopped_by: int | None  # a signal that asked us to end, and was passed on
    host_ran_out: bool  # the kernel killed a process of this machine for want of memory meanwhile
    findings: Findings

    @property
    def exit_status(self) -> int:
        """As a shell would say it."""
        return self.status if self.status >= 0 else 128 - self.status

    @property
    def out_of_memory(self) -> bool:
        """Whether it failed because the device's memory ran out; a program may also catch that error and go on."""
        if self.status == 0:
            return False
        # The launcher of several processes ends those that are left; they tell nothing about the cause.
        causes = [text for text in self._ends() if text != "SIGTERM"]
        if causes:
            return any("OutOfMemoryError" in text for text in causes)
        return any(row["out_of_memory"] for process in self.findings.processes for row in process.get("devices", ()))

    def explanation(self) -> str | None:
        """One sentence about an end that the command may not have explained itself."""
        if self.status == -signal.SIGKILL or (self.status != 0 and self.host_ran_out):
            known = "because this machine ran out of memory"
            sure = known if self.host_ran_out else "perhaps for lack of memory on this machine"
            smaller = "run it without --compute, or make it smaller"
            what = smaller if self.plan.compute else "make it smaller, or free memory"
            return f"the command, or a process of it, was killed with SIGKILL, {sure}; {what}"
        if self.status == -signal.SIGINT:
            return "the command was interrupted"
        if self.status < 0:
            crashed = -self.status in _CRASHES
            advice = "see with PYTHONFAULTHANDLER=1 where it was" if crashed else "somebody sent it that signal"
            return f"the command was ended by {signal.Signals(-self.status).name}; {advice}"
        if any("MemoryError" in text and "OutOfMemory" not in text for text in self._ends()):
            return (
                "this machine has not enough memory for what the command keeps outside of the device; make it smaller"
            )
        if any("OutOfMemoryError" in text for text in self._ends()):
            where = "the device" if self.plan.device is None else "the emulated device"
            idle = self._idle()
            ours = any(process.get("backend") == "gmlake" for process in self.findings.processes)
            helps = f", or --allocator gmlake: {_core.format_bytes(idle)} of what was reserved lay idle"
            return f"memory of {where} ran out; try a larger one{'' if ours or idle < _WORTH_A_TRY else helps}"
        return None

    def _idle(self) -> int:
        """What a device had reserved and never in use."""
        rows = [row for process in self.findings.processes for row in process.get("devices", ())]
        return max(((row["peak_reserved"] or 0) - (row["peak_active"] or 0) for row in rows), default=0)

    def _ends(self) -> list[str]:
        return [process["ended"] for process in self.findings.processes if process["ended"]]


def check_command(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """NotStarted if there is nothing to start, before anything is touched for it."""
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        reason = errno.EACCES if Path(command[0]).exists() else errno.ENOENT
        raise NotStarted(command[0], OSError(reason, os.strerror(reason)))


def execute(
    command: Sequence[str],
    plan: Plan,
    base: Mapping[str, str],
    record: Path | None = None,
    output: IO[bytes] | None = None,
    tick: Callable[[], None] | None = None,
) -> Execution:
    """Run the command to its end. NotStarted if it cannot be.

    `base` is the environment that the child's is made from. `record` is where traces go. With `output` the command
    writes both of its streams there and reads nothing. `tick` is called several times a second.
    """
    child = environment(plan, base)
    killed = killed_for_memory()
    began = time.monotonic()
    try:
        ended = run_child(command, child, output, tick)
    except OSError as error:
        raise NotStarted(command[0], error) from None
    seconds = time.monotonic() - began
    findings = gather(plan.session, record)
    return Execution(plan, ended.status, seconds, ended.stopped_by, killed_for_memory() > killed, findings)
