"""Records many workloads, some at a time: what is there is kept, a failure does not end the others, and an interrupt
loses only what was under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from gmlake.errors import UserError
from gmlake.workloads.recording import Interrupted, Recorded, add_to_manifest, read_manifest, record
from gmlake.workloads.workload import Workload

Show = Callable[[Workload, int], None]  # a workload has done so many iterations


@dataclass
class Outcome:
    """What became of them."""

    recorded: list[Recorded] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # ids of those that were there
    failed: dict[str, str] = field(default_factory=dict)


def record_all(workloads: Sequence[Workload], folder: Path, jobs: int, force: bool, show: Show) -> Outcome:
    """Record into a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror}; choose another with -o") from None
    known = read_manifest(folder)
    outcome = Outcome()
    todo = []
    for workload in workloads:
        if not force and workload.id in known and (folder / workload.file_name).exists():
            outcome.kept.append(workload.id)
        else:
            todo.append(workload)
    stop = threading.Event()

    def one(workload: Workload) -> Recorded:
        if stop.is_set():
            raise Interrupted
        return record(workload, folder / workload.file_name, lambda done: show(workload, done), stop)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            futures = {pool.submit(one, workload): workload for workload in todo}
            _collect(futures, folder, outcome)
        finally:
            stop.set()
    return outcome


def _collect(futures: dict[Future[Recorded], Workload], folder: Path, outcome: Outcome) -> None:
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            try:
                recorded = future.result()
            except UserError as error:
                outcome.failed[futures[future].id] = str(error)
                continue
            add_to_manifest(folder, recorded)
            outcome.recorded.append(recorded)
