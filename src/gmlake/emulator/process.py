"""Runs the child as if we were not there: its streams are ours, its signals and its end are passed on.

Signals wait in a queue of the kernel and are taken out one by one, so that none is lost and no handler interrupts
anything. One that the terminal sent has reached the child already, which is in the same group of processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_BY_THE_KERNEL = 0x80  # si_code of a signal that no process sent, such as the terminal's
_OOM_COUNTER = Path("/proc/vmstat")


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The child's exit status, or minus the signal that killed it. OSError if it cannot be started."""
    waiting = PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        while child.poll() is None:
            arrived = signal.sigwaitinfo(waiting)
            if arrived.si_signo != signal.SIGCHLD and arrived.si_code != _BY_THE_KERNEL:
                os.kill(child.pid, arrived.si_signo)
        return child.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def killed_for_memory() -> int:
    """How many processes of this machine the kernel has killed so far because memory ran out."""
    try:
        counters = dict(line.split() for line in _OOM_COUNTER.read_text().splitlines())
        return int(counters.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0
