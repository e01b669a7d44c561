"""Runs the child as if we were not there: its streams are ours, its signals and its end are passed on.

Signals wait in a queue of the kernel and are taken out one by one, so that none is lost and no handler interrupts
anything. One that the terminal sent has reached the child already, which is in the same group of processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TO_END = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
PASSED_ON = _TO_END | {signal.SIGUSR1, signal.SIGUSR2}
_BY_THE_KERNEL = 0x80  # si_code of a signal that no process sent, such as the terminal's
_OOM_COUNTER = Path("/proc/vmstat")
_TICK = 0.2  # seconds


@dataclass(frozen=True)
class Ended:
    """How the child ended, and whether somebody had asked for it."""

    status: int  # its exit status, or minus the signal that killed it
    stopped_by: int | None  # the first signal that arrived and asks a process to end


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes] | None = None,
    tick: Callable[[], None] | None = None,
) -> Ended:
    """Wait for the child's end. OSError if it cannot be started.

    With `output` it gets both of the child's streams, and the child reads nothing. `tick` is called while we wait.
    """
    waiting = PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    stopped_by: int | None = None
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=None if output is None else subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        while child.poll() is None:
            arrived = signal.sigwaitinfo(waiting) if tick is None else signal.sigtimedwait(waiting, _TICK)
            if tick is not None:
                tick()
            if arrived is None or arrived.si_signo == signal.SIGCHLD:
                continue
            if arrived.si_signo in _TO_END:
                stopped_by = stopped_by or arrived.si_signo
            if arrived.si_code != _BY_THE_KERNEL:
                os.kill(child.pid, arrived.si_signo)
        while signal.sigtimedwait(waiting, 0) is not None:
            pass  # what arrived before its end was for the child: the report of its run is not to be lost to it
        return Ended(child.returncode, stopped_by)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def killed_for_memory() -> int:
    """How many processes of this machine the kernel has killed so far because memory ran out."""
    try:
        counters = dict(line.split() for line in _OOM_COUNTER.read_text().splitlines())
        return int(counters.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0
