"""gmlake.record: keeps what the program does with GPU memory as a trace, for gmlake replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gmlake.errors import CannotEnable, UserError
from gmlake.output import check_target


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
    if history.is_recording():
        raise UserError("PyTorch's memory history is being recorded; stop that before gmlake.record()")
    format_to_write(target, None)
    check_target(target, force, "pass force=True")
    history.record("all", context=None, stacks="python", max_entries=max_entries)
    finished = False
    try:
        yield
        finished = True
    finally:  # a program that fails, for lack of memory maybe, has a trace worth looking at
        taken = snapshot.take()
        history.record(None)
        events = taken["device_traces"][device] if device < len(taken["device_traces"]) else []
        segments = [segment for segment in taken["segments"] if segment["device"] == device]
        if any(event["action"] in ("alloc", "free_requested") for event in events):
            write_trace(read_device(taken, events, segments, device, target.stem), target, force=force)
        elif finished:
            raise UserError(f"{target} was not written: nothing was allocated or freed on device {device}")
