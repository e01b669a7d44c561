"""The comparison as text: a row per allocator, for every process and device, and the saving in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gmlake import _core
from gmlake.comparison.trials import COMPLETED, OUT_OF_MEMORY, Trial, reserved_of
from gmlake.emulator.summary import PEAKS, first, peak_cells, title

_CALLED = {"torch": "PyTorch", "expandable": "PyTorch with expandable segments"}
_ALIKE = 0.01  # runs whose requested bytes differ by more did not do the same


def show(trials: Sequence[Trial], console: Console) -> None:
    """Print what was found."""
    console.print(f"[bold]gmlake compare[/]  {escape(title(trials[0].done.plan))}")
    console.print(_table(trials))
    for note in notes(trials):
        console.print(note, style="yellow", markup=False)
    sentence = saving(trials)
    if sentence is not None:
        console.print(f"\n{sentence}", style="bold", markup=False)


def _table(trials: Sequence[Trial]) -> Table:
    places = list(dict.fromkeys(place for trial in trials for place in trial.rows))
    several = len(places) > 1
    timed = trials[0].done.plan.device is None
    smallest = any(trial.smallest_memory for trial in trials)
    outcomes = any(trial.outcome != COMPLETED for trial in trials)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for head in ("process", "GPU") if several else ():
        table.add_column(head)
    table.add_column("allocator")
    for head in (*PEAKS, *(["smallest"] if smallest else []), *(["seconds"] if timed else [])):
        table.add_column(head, justify="right")
    if outcomes:
        table.add_column("outcome")
    for place in places or [("", 0)]:
        known = [reserved_of(trial.rows[place]) for trial in trials if _counts(trial, place)]
        best = min(known) if len(set(known)) > 1 else None
        for trial in trials:
            row = trial.rows.get(place)
            cells = [Text(cell) for cell in (["-"] * len(PEAKS) if row is None else peak_cells(row))]
            if row and _counts(trial, place) and reserved_of(row) == best:
                cells[PEAKS.index("reserved")].stylize("bold green")
            table.add_row(
                *([place[0], str(place[1])] if several else []),
                trial.allocator,
                *cells,
                *([_size(trial.smallest_memory)] if smallest else []),
                *([f"{trial.done.seconds:.1f}"] if timed else []),
                *([trial.outcome] if outcomes else []),
                style="" if trial.outcome == COMPLETED else "dim",
            )
    return table


def _counts(trial: Trial, place: tuple[str, int]) -> bool:
    return trial.outcome == COMPLETED and place in trial.rows


def _size(value: int | None) -> str:
    return "-" if value is None else _core.format_bytes(value)


def notes(trials: Sequence[Trial]) -> list[str]:
    """What a reader must know before trusting the table."""
    found = []
    if not _alike(trials):
        requested = [trial.requested for trial in trials if trial.outcome == COMPLETED]
        least, most = map(_core.format_bytes, (min(requested), max(requested)))
        found.append(
            f"The runs did not ask for the same memory (from {least} to {most} at most), so that they cannot be "
            "compared closely; does the program depend on chance or time, or on the memory that is free?"
        )
    called = list(dict.fromkeys(name for trial in trials for name in trial.done.findings.unimplemented))
    if called:
        found.append(f"Not implemented, but called: {first(called)}.")
    return found


def _alike(trials: Sequence[Trial]) -> bool:
    """Whether the runs that completed asked for the same."""
    requested = [trial.requested for trial in trials if trial.outcome == COMPLETED]
    return not requested or max(requested) - min(requested) <= _ALIKE * max(requested)


def saving(trials: Sequence[Trial]) -> str | None:
    """What it comes down to: gmlake, or else the leanest, against PyTorch's default, or else the neediest."""
    if len(trials) < 2:
        return None
    completed = [trial for trial in trials if trial.outcome == COMPLETED and trial.rows]
    stuck = [trial.allocator for trial in trials if trial.outcome == OUT_OF_MEMORY]
    if not completed:
        return "The memory is too small, whatever the allocator." if len(stuck) == len(trials) else None
    searched = all(trial.smallest_memory for trial in completed)
    need = {trial.allocator: (searched and trial.smallest_memory) or trial.reserved for trial in completed}
    ours = "gmlake" if "gmlake" in need else min(need, key=need.__getitem__)
    if "torch" in stuck:
        return f"{_called(ours)} completes with {_core.format_bytes(need[ours])} where PyTorch runs out of memory."
    theirs = "torch" if "torch" in need and ours != "torch" else max(need, key=need.__getitem__)
    if ours == theirs or not _alike(trials):
        return None
    several = max(len(trial.rows) for trial in trials) > 1
    where = "On the GPU that needs most, " if several else ""
    return where + _difference(ours, theirs, need, "needs" if searched else "reserves")


def _difference(ours: str, theirs: str, need: dict[str, int], verb: str) -> str:
    mine, other = (_core.format_bytes(need[name]) for name in (ours, theirs))
    if mine == other:
        return f"{_called(ours)} {verb} {mine}, as much as {_called(theirs)}."
    saved = need[theirs] - need[ours]
    difference = f"{_core.format_bytes(abs(saved))} {'less' if saved > 0 else 'more'}"
    against = other.split()[0] if other.split()[-1] == mine.split()[-1] else other
    return f"{_called(ours)} {verb} {mine} where {_called(theirs)} {verb} {against}: {difference}."


def _called(allocator: str) -> str:
    return _CALLED.get(allocator, allocator)
