"""What the processes of one run left in its folder, gathered when the run is over.

A process writes report-<pid>.json (inside/report.py) and trace-<pid>-<device>.gmt (inside/conversion.py); the native
library writes unimplemented-<pid>, a symbol in every line. The folder is on this machine and goes with the run.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gmlake.errors import UserError
from gmlake.output import move_whole


@dataclass
class TraceFile:
    """A recorded trace."""

    path: str
    rank: int | None
    pid: int
    device: int
    events: int
    allocations: int
    iterations: int
    beginning_lost: bool


@dataclass
class Findings:
    """All that is known about a run, for people and for --json."""

    processes: list[dict[str, Any]] = field(default_factory=list)  # as inside/report.py writes them
    unimplemented: list[str] = field(default_factory=list)
    traces: list[TraceFile] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)  # a sentence about each trace that is not where it should be

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def gather(session: Path, record: Path | None) -> Findings:
    """Read what is there, and put the traces where the user wants them."""
    processes = [json.loads(path.read_text()) for path in session.glob("report-*.json")]
    processes.sort(key=lambda process: (process["rank"] is None, process["rank"], process["pid"]))
    symbols: dict[str, None] = {}
    for path in sorted(session.glob("unimplemented-*")):
        symbols |= dict.fromkeys(path.read_text(errors="replace").split())
    findings = Findings(processes, list(symbols))
    if record is not None:
        _place_traces(session, record, findings)
    return findings


def may_record_to(path: Path, record: Path) -> bool:
    """Whether a trace of a run that records to `record` may be put there; which names are used, the run's end says."""
    names = rf"{re.escape(record.stem)}(\.rank\d+|\.pid\d+)?(\.gpu\d+)?{re.escape(record.suffix)}"
    return re.fullmatch(names, path.name) is not None and path.parent.resolve() == record.parent.resolve()


def _place_traces(session: Path, record: Path, findings: Findings) -> None:
    found = [
        (process, trace)
        for process in findings.processes
        if isinstance(process.get("traces"), list)
        for trace in process["traces"]
    ]
    names = [_label(process, trace, found) for process, trace in found]
    for (process, trace), label in zip(found, names, strict=True):
        path = record.with_name(f"{record.stem}{label}{record.suffix}")
        try:
            move_whole(session / trace["file"], path)
        except UserError as error:
            findings.unwritten.append(str(error))
            continue
        known = {key: value for key, value in trace.items() if key != "file"}
        findings.traces.append(TraceFile(path=str(path), rank=process["rank"], pid=process["pid"], **known))


def _label(process: dict[str, Any], trace: dict[str, Any], found: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """As little as tells this trace from the others of the run: .rank1, .pid4711, .gpu0, or nothing.

    may_record_to knows these too.
    """
    label = ""
    if len({other["pid"] for other, _ in found}) > 1:
        ranks = [other["rank"] for other in {other["pid"]: other for other, _ in found}.values()]
        alone = process["rank"] is not None and ranks.count(process["rank"]) == 1
        label += f".rank{process['rank']}" if alone else f".pid{process['pid']}"
    if sum(other["pid"] == process["pid"] for other, _ in found) > 1:
        label += f".gpu{trace['device']}"
    return label
