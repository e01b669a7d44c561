"""Reports: a single HTML file, readable offline, that shows where the memory of a run goes under each allocator.

gmlake.report.write("snapshot.pickle", "report.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gmlake.errors import UserError
from gmlake.output import check_target as refuse_unwritable
from gmlake.output import readable, write_whole
from gmlake.replay import ALLOCATORS, Settings
from gmlake.report import palette
from gmlake.report.assembling import assemble
from gmlake.report.contents import Columns, describe, headline
from gmlake.report.gathering import Input, Subject, gather
from gmlake.trace import Trace

__all__ = ["ALLOCATORS", "Input", "Subject", "check_target", "gather", "headline", "write", "write_subjects"]


def write(
    inputs: str | Path | Trace | Sequence[Input],
    output: str | Path,
    *,
    allocators: Sequence[str] = ALLOCATORS,
    capacity: int | None = None,
    smallest_capacity: bool = False,
    cost_table: str = "a100",
    device: int | None = None,
    jobs: int | None = None,
    title: str | None = None,
    force: bool = False,
) -> list[Subject]:
    """Write a report about traces (files, bundled names or Trace objects) and results (files or lists of Result)."""
    output = Path(output)
    check_target(output, (".html", ".htm"), force, "pass force=True")
    settings = Settings(capacity=capacity, cost_table=cost_table, smallest_capacity=smallest_capacity, memory_map=True)
    subjects = gather(inputs, allocators, settings, device, jobs)
    write_subjects(subjects, output, title)
    return subjects


def write_subjects(subjects: Sequence[Subject], output: Path, title: str | None = None) -> None:
    """Write a report about what was gathered; whatever stands there is replaced."""
    title = readable(title or ", ".join(dict.fromkeys(subject.name for subject in subjects)))
    columns = Columns()
    description = {
        "title": title,
        "palette": palette.for_page(),
        "subjects": [describe(subject, columns) for subject in subjects],
    }
    write_whole(output, assemble(title, description, columns.packed).encode())


def check_target(path: Path, suffixes: Sequence[str], force: bool, to_force: str = "overwrite it with -f") -> None:
    """Refuse a file that could not be written, before any work is done."""
    if path.suffix.lower() not in suffixes:
        raise UserError(f"'{path}' should end in {' or '.join(suffixes)}")
    refuse_unwritable(path, force, to_force)
