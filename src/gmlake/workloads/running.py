"""Replays workloads on allocators: what is not kept from an earlier run is replayed, here or on a cluster, and kept.

The device has the memory of the paper's card. A replay never needs PyTorch: it reads the bundled trace of the
workload, or one that was recorded into a folder of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gmlake.emulator.devices import find_device
from gmlake.errors import UserError
from gmlake.replay import Result, Settings
from gmlake.replay.engine import Run
from gmlake.replay.progress import ProgressDisplay
from gmlake.replay.sweep import replay_pairs
from gmlake.trace import read_trace
from gmlake.workloads.results import Kept, key
from gmlake.workloads.workload import Workload

BUNDLED = Path(__file__).parent / "traces"
CARD = "a100-80g"
AT_ONCE = 8  # traces in memory


@dataclass(frozen=True)
class Task:
    """One replay."""

    workload: Workload
    trace: Path
    allocator: str
    key: str


Report = Callable[[Task, Result], None]
Elsewhere = Callable[[Sequence[Task], Settings, Report], None]  # runs tasks and reports each


def settings(smallest: bool) -> Settings:
    """How all workloads are replayed."""
    return Settings(capacity=find_device(CARD).memory, smallest_capacity=smallest)


def trace_of(workload: Workload, folder: Path | None) -> Path:
    """Its trace: the user's if there is one, else the bundled one."""
    if folder is not None and not folder.is_dir():
        raise UserError(f"--traces needs a folder, and {folder} is {'a file' if folder.exists() else 'not there'}")
    for place in filter(None, (folder, BUNDLED)):
        path = place / workload.file_name
        if path.exists():
            return path
    raise UserError(
        f"there is no trace of {workload.id}; record it with: gmlake workloads record {workload.id} -o traces, "
        "and give --traces traces"
    )


def run(
    workloads: Sequence[Workload],
    allocators: Sequence[str],
    how: Settings,
    kept: Kept,
    traces: Path | None = None,
    jobs: int | None = None,
    elsewhere: Elsewhere | None = None,
    display: ProgressDisplay | None = None,
) -> list[Result]:
    """One result for every workload and allocator, workload by workload."""
    tasks = list(_tasks(workloads, allocators, how, traces))
    missing = [task for task in tasks if kept.get(task.key) is None]

    def report(task: Task, result: Result) -> None:
        kept.add(task.key, replace(result, trace=task.workload.id))

    if elsewhere is not None:
        elsewhere(missing, how, report)
    else:
        _here(missing, how, report, jobs, display)
    return [result for task in tasks if (result := kept.get(task.key)) is not None]


def count_missing(
    workloads: Sequence[Workload], allocators: Sequence[str], how: Settings, kept: Kept, traces: Path | None
) -> int:
    """How many replays there are to do."""
    return sum(kept.get(task.key) is None for task in _tasks(workloads, allocators, how, traces))


def _tasks(
    workloads: Sequence[Workload], allocators: Sequence[str], how: Settings, traces: Path | None
) -> Iterator[Task]:
    for workload in workloads:
        path = trace_of(workload, traces)
        for allocator in allocators:
            yield Task(workload, path, allocator, key(path, allocator, how))


def _here(
    tasks: Sequence[Task], how: Settings, report: Report, jobs: int | None, display: ProgressDisplay | None
) -> None:
    """On the cores of this machine, a few traces at a time."""
    paths = list(dict.fromkeys(task.trace for task in tasks))
    for first in range(0, len(paths), AT_ONCE):
        group = {path: read_trace(path) for path in paths[first : first + AT_ONCE]}
        chosen = [task for task in tasks if task.trace in group]
        named = [(replace(group[task.trace], name=task.workload.id), task.allocator) for task in chosen]
        replay_pairs(named, how, jobs, display, partial(_pass_on, chosen, report))


def _pass_on(tasks: Sequence[Task], report: Report, number: int, run: Run) -> None:
    report(tasks[number], run.result)
