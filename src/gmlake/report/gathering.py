"""From what the user names to what a report shows: reads files, replays traces, keeps the runs together.

An input is a trace in any format that `gmlake.trace` reads, or the JSON of `gmlake replay --json`, `gmlake run --json`
or `gmlake compare --json`. Nothing here knows how a subject is drawn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gmlake.errors import UserError
from gmlake.replay import ALLOCATORS, Result, Settings, sweep
from gmlake.replay.engine import Run
from gmlake.replay.progress import ProgressDisplay
from gmlake.trace import Trace, names_of, read_trace
from gmlake.waiting import waiting

_OURS = re.compile(rb'\s*\{\s*"(results|status|emulated)"')  # how the three kinds of JSON begin
_LONGEST_JSON = 256 << 20
# What is shown of a device in a saved run: numbers, or None where nobody knew. The rest, such as its name, is not read.
OF_DEVICE = ("device", "peak_requested", "peak_active", "peak_reserved", "peak_on_device", "retries", "out_of_memory")

Input = str | Path | Trace | Sequence[Result]


@dataclass(frozen=True)
class Subject:
    """One thing that the report is about. A trace has runs, saved results have none, saved runs have processes."""

    name: str
    results: tuple[Result, ...] = field(default=(), repr=False)
    trace: Trace | None = field(default=None, repr=False)
    runs: tuple[Run, ...] = field(default=(), repr=False)
    processes: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    saving: str | None = None  # what a saved comparison came down to


def gather(
    inputs: str | Path | Trace | Sequence[Input],
    allocators: Sequence[str] = ALLOCATORS,
    settings: Settings | None = None,
    device: int | None = None,
    jobs: int | None = None,
) -> list[Subject]:
    """Read and replay one input or several; one subject per trace, and per trace that saved results are about."""
    settings = settings or Settings(memory_map=True)
    found: list[Subject | Trace] = []
    files: list[str] = []  # of each, how its file is called beside the others; "" if there is none
    sources = [inputs] if isinstance(inputs, (str, Path, Trace)) else inputs
    names = iter(names_of([source for source in sources if isinstance(source, (str, Path))]))
    for source in sources:
        name = next(names) if isinstance(source, (str, Path)) else ""
        found += _from_file(source, name, device) if isinstance(source, (str, Path)) else _given(source)
        files += [name] * (len(found) - len(files))
    traces = [item for item in found if isinstance(item, Trace)]
    with ProgressDisplay(len(traces) * len(allocators)) as display:
        runs = iter(sweep(traces, allocators, settings, jobs, display) if traces else ())
    subjects = []
    for item in found:
        if isinstance(item, Trace):
            own = tuple(next(runs) for _ in allocators)
            item = Subject(item.name, tuple(run.result for run in own), item, own)
        subjects.append(item)
    return _told_apart(subjects, files)


def _told_apart(subjects: Sequence[Subject], files: Sequence[str]) -> list[Subject]:
    """The subjects; of a name that comes from several files each says from which, and else its number."""
    names = [subject.name for subject in subjects]
    origins = {name: {file for other, file in zip(names, files, strict=True) if other == name} for name in names}
    for at, file in enumerate(files):
        if len(origins[names[at]]) > 1 and file not in ("", names[at]):
            names[at] += f" ({file})"
    numbers = [names[: at + 1].count(name) for at, name in enumerate(names)]
    names = [
        f"{name}, {number}" if names.count(name) > 1 else name for name, number in zip(names, numbers, strict=True)
    ]
    return [replace(subject, name=name) for subject, name in zip(subjects, names, strict=True)]


def _given(source: Trace | Sequence[Result]) -> Sequence[Subject | Trace]:
    return [source] if isinstance(source, Trace) else _by_trace(list(source))


def _from_file(source: str | Path, name: str, device: int | None) -> Sequence[Subject | Trace]:
    path = Path(source)
    if _is_saved(path):
        return _saved(path, name)
    with waiting("reading", path):
        return [replace(read_trace(source, device=device), name=name)]


def _is_saved(path: Path) -> bool:
    """Whether it begins as our JSON does; what cannot be read is named by the reader of traces."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return _OURS.match(file.read(200)) is not None
    return False


def _saved(path: Path, name: str) -> list[Subject]:
    if path.stat().st_size > _LONGEST_JSON:
        raise UserError(f"{path}: is too long for results; at most {_LONGEST_JSON >> 20} MiB are read")
    try:
        data = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is no intact JSON: {error}") from None
    if "results" in data:
        if not isinstance(data["results"], list) or not data["results"]:
            raise UserError(f"{path}: holds no results; make some with: gmlake replay TRACE --json")
        try:
            return _by_trace([Result.from_json(item) for item in data["results"]])
        except ValueError as error:
            raise UserError(f"{path}: {error}; was it made by gmlake replay --json?") from None
    runs = data.get("runs", [data])  # a comparison has several
    if not isinstance(runs, list) or not all(_is_run(run) for run in runs):
        raise UserError(f"{path}: holds no processes; was it made by gmlake run --json or gmlake compare --json?")
    processes = [
        process | {"backend": run.get("allocator", process.get("backend", "native"))}
        for run in runs
        for process in run["processes"]
    ]
    saving = data.get("saving")
    return [Subject(name, processes=tuple(processes), saving=saving if isinstance(saving, str) else None)]


def _by_trace(results: list[Result]) -> list[Subject]:
    """Results of one name together, but for those that cannot be of one trace: files may share a name."""
    groups: list[list[Result]] = []
    for result in results:
        own = next((group for group in reversed(groups) if all(_of_one_trace(result, other) for other in group)), None)
        if own is None:
            groups.append([result])
        else:
            own.append(result)
    return [Subject(group[0].trace, tuple(group)) for group in groups]


def _of_one_trace(one: Result, other: Result) -> bool:
    if one.trace != other.trace or one.allocator == other.allocator:
        return False
    if not (one.completed and other.completed):  # one that ran out of memory saw a part of it
        return True
    return (one.events, one.peak_requested, one.peak_active) == (other.events, other.peak_requested, other.peak_active)


def _is_run(run: Any) -> bool:
    processes = run.get("processes") if isinstance(run, dict) else None
    return isinstance(processes, list) and all(_is_process(process) for process in processes)


def _is_process(process: Any) -> bool:
    """As far as it is shown: a process with its devices and their peaks."""
    if not isinstance(process, dict) or not isinstance(process.get("pid"), int):
        return False
    if not isinstance(process.get("rank"), int | None):
        return False
    devices = process.get("devices", [])
    return isinstance(devices, list) and all(
        isinstance(row, dict) and all(row.get(key) is None or isinstance(row[key], int) for key in OF_DEVICE)
        for row in devices
    )
