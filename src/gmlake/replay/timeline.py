"""Timelines as files: a CSV with a row per sample, or JSON with columns per replay. The suffix decides."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from gmlake.errors import UserError
from gmlake.output import check_target as refuse_unwritable
from gmlake.output import readable, write_whole
from gmlake.replay.engine import Run

COLUMNS = ("event", "allocated", "active", "reserved")


def check_target(path: Path, force: bool) -> None:
    """Refuse a file that could not be written, before any work is done."""
    if path.suffix not in (".csv", ".json"):
        raise UserError(f"--timeline writes .csv or .json, not {path}")
    refuse_unwritable(path, force)


def write_timelines(path: Path, runs: Sequence[Run]) -> None:
    """Write the timelines of all runs into one file."""
    text = io.StringIO(newline="")
    if path.suffix == ".csv":
        writer = csv.writer(text)
        writer.writerow(("trace", "allocator", *COLUMNS))
        for run in runs:
            for row in _rows(run):
                writer.writerow((readable(run.result.trace), run.result.allocator, *row))
    else:
        json.dump({"timelines": [_columns(run) for run in runs]}, text)
    write_whole(path, text.getvalue().encode())


def _rows(run: Run) -> list[list[int]]:
    return [] if run.timeline is None else run.timeline.tolist()


def _columns(run: Run) -> dict[str, object]:
    rows = _rows(run)
    columns = {name: [row[number] for row in rows] for number, name in enumerate(COLUMNS)}
    return {"trace": readable(run.result.trace), "allocator": run.result.allocator, **columns}
