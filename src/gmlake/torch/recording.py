"""gmlake.record: keeps what the program does with GPU memory as a trace, for gmlake replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from gmlake.errors import CannotEnable, UserError
from gmlake.output import check_target


class Lender(Protocol):
    """A recording of the whole process, by `gmlake run`: its history is lent to gmlake.record() for a while."""

    def lend(self) -> bool:
        """Let the history start anew, and leave it alone until it is taken back; False if that cannot be now."""

    def take_back(self) -> None:
        """The history may go on as it was."""


lender: Lender | None = None


@contextmanager
def record(path: str | Path, *, device: int = 0, max_entries: int = 10_000_000, force: bool = False) -> Iterator[None]:
    """Write the allocations and frees of one device inside the `with` to a file; its suffix says in which format.

    .gmt is ours and the smallest, .pickle opens in PyTorch's memory viewer; `gmlake replay FILE` reads all, .json too.
    Blocks that were in use before are part of the trace. With more than `max_entries` events the oldest are dropped.
    """
    from gmlake.torch import activation, history, snapshot
    from gmlake.trace import write_trace
    from gmlake.trace.formats.snapshot_history import read_device
    from gmlake.trace.reading import format_to_write

    target = Path(path)
    if not activation.is_enabled():
        raise CannotEnable("gmlake.record() shows what GMLake serves; call gmlake.enable() or set GMLAKE=1 first")
    format_to_write(target, None)
    check_target(target, force, "pass force=True")
    lent = lender if lender is not None and lender.lend() else None
    if lent is None:
        if history.is_recording():
            raise UserError("PyTorch's memory history is being recorded; stop that before gmlake.record()")
        history.record("all", context=None, stacks="python", max_entries=max_entries)
    finished = False
    try:
        yield
        finished = True
    finally:  # a program that fails, for lack of memory maybe, has a trace worth looking at
        taken = snapshot.take()
        if lent is None:
            history.record(None)
        else:
            lent.take_back()
        events = taken["device_traces"][device][-max_entries:] if device < len(taken["device_traces"]) else []
        segments = [segment for segment in taken["segments"] if segment["device"] == device]
        if any(event["action"] in ("alloc", "free_requested") for event in events):
            write_trace(read_device(taken, events, segments, device, target.stem), target, force=force)
        elif finished:
            raise UserError(f"{target} was not written: nothing was allocated or freed on device {device}")
