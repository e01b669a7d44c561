"""Makes the trace of a workload: runs its job on the emulated device, as rank 0 of as many as it has GPUs.

The card has more memory than any job asks for, so that the trace is the plain sequence of what was asked. A trace is
written whole or not at all, with a line about it in the folder's manifest; what is there already is kept. The same
workload, seed and versions give the same trace: addresses of streams and times are left out of it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gmlake.emulator.devices import find_device
from gmlake.emulator.launch import Plan, default_gpus, environment
from gmlake.emulator.session import gather
from gmlake.errors import UserError
from gmlake.trace import Trace, read_trace, write_trace
from gmlake.workloads.workload import Workload

DEVICE = "a100-80g"
MEMORY = 2 << 40
VERSIONS = {  # as requirements/ pins them; a test compares
    "torch": "2.14.1",
    "transformers": "5.22.2",
    "peft": "0.21.2",
    "accelerate": "1.15.0",
    "deepspeed": "0.19.8",
}
MANIFEST = "manifest.jsonl"

OnIteration = Callable[[int], None]


@dataclass(frozen=True)
class Recorded:
    """What is known of a recording besides its trace; a line of the manifest."""

    id: str
    seed: int
    events: int
    iterations: int
    peak_active: int  # these two as PyTorch's own allocator counted them
    peak_reserved: int
    host_bytes: int
    seconds: float
    seconds_per_iteration: float
    versions: dict[str, str]


class Interrupted(Exception):
    """Recording was stopped from outside."""


def check_packages() -> dict[str, str]:
    """The versions that are here; an error for what is missing."""
    missing = [name for name in VERSIONS if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"recording runs real training code and needs {', '.join(missing)}; install what requirements/emulated.txt "
            "and requirements/deepspeed.txt name"
        )
    return {name: importlib.metadata.version(name) for name in VERSIONS}


def record(workload: Workload, target: Path, on_iteration: OnIteration, stop: threading.Event) -> Recorded:
    """Run the job and write its trace to `target`."""
    session = Path(tempfile.mkdtemp(prefix="gmlake-"))
    try:
        started = time.monotonic()
        seconds = _run(workload, session, on_iteration, stop)
        return _keep(workload, session, target, time.monotonic() - started, seconds)
    finally:
        shutil.rmtree(session, ignore_errors=True)


def _run(workload: Workload, session: Path, on_iteration: OnIteration, stop: threading.Event) -> list[float]:
    """The seconds of every iteration."""
    plan = Plan(
        session=session,
        device=find_device(DEVICE).with_memory(MEMORY),
        gpus=default_gpus(workload.gpus),
        world_size=workload.gpus,
        record=session / "trace.gmt",
        allocator="torch",
    )
    base = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    command = [sys.executable, "-m", "gmlake.workloads.jobs", json.dumps(workload.job())]
    errors = session / "stderr"
    seconds: list[float] = []
    with errors.open("wb") as stderr:
        child = subprocess.Popen(
            command,
            env=environment(plan, base) | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            cwd=session,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,  # an interrupt is for us; we end the child
        )
        watcher = threading.Thread(target=_kill_when, args=(child, stop), daemon=True)
        watcher.start()
        for line in child.stdout or ():
            if line.startswith('{"iteration"'):
                seconds.append(json.loads(line)["seconds"])
                on_iteration(len(seconds))
        status = child.wait()
    if stop.is_set():
        raise Interrupted
    if status != 0:
        raise UserError(f"{workload.id} could not be recorded: {_reason(errors, status)}")
    return seconds


def _kill_when(child: subprocess.Popen[str], stop: threading.Event) -> None:
    while child.poll() is None:
        if stop.wait(0.2):
            child.kill()


def _reason(errors: Path, status: int) -> str:
    if status < 0:
        return f"its process was killed by signal {-status}; is there enough memory? Try --jobs 1"
    lines = [line.removeprefix("[rank0]:").strip() for line in errors.read_text(errors="replace").splitlines()]
    wrong = [line for line in lines if "Error" in line.partition(":")[0]]
    return (wrong or lines or ["it ended with status " + str(status)])[-1]


def _keep(workload: Workload, session: Path, target: Path, whole: float, seconds: list[float]) -> Recorded:
    findings = gather(session, session / "trace.gmt")
    if len(findings.traces) != 1:
        raise UserError(f"{workload.id} could not be recorded: it left {len(findings.traces)} traces, expected one")
    trace = canonical(read_trace(findings.traces[0].path))
    if trace.iterations != workload.iterations:
        raise UserError(f"{workload.id} has {trace.iterations} iterations, expected {workload.iterations}")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.gmt")
    try:
        write_trace(trace, unfinished, force=True)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    [process] = findings.processes
    [device] = process["devices"]
    return Recorded(
        id=workload.id,
        seed=workload.seed,
        events=len(trace),
        iterations=trace.iterations,
        peak_active=device["peak_active"],
        peak_reserved=device["peak_reserved"],
        host_bytes=process["host_peak"],
        seconds=round(whole, 1),
        seconds_per_iteration=round(max(seconds), 2),
        versions=check_packages(),
    )


def canonical(trace: Trace) -> Trace:
    """The trace without what differs from run to run: times, and streams in the order of their addresses."""
    used, first = np.unique(trace.stream, return_index=True)
    order = sorted(range(len(used)), key=lambda place: (used[place] != 0, first[place]))  # the default stream stays 0
    number = np.zeros(len(trace.streams), dtype=trace.stream.dtype)
    number[used[order]] = np.arange(len(used))
    return replace(trace, stream=number[trace.stream], time_us=None, streams=tuple(range(len(used))))


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """The last line about every workload; a line that is damaged, as by a run that was killed, is skipped."""
    path = folder / MANIFEST
    if not path.exists():
        return {}
    entries: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, TypeError, KeyError):
            entry = json.loads(line)
            entries[entry["id"]] = entry
    return entries


def add_to_manifest(folder: Path, recorded: Recorded) -> None:
    """One more line."""
    path = folder / MANIFEST
    try:
        with path.open("a") as file:
            file.write(json.dumps(asdict(recorded), sort_keys=True) + "\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; make room and record again") from None
