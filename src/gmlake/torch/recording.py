"""gmlake.record: keeps what the program does with GPU memory as a trace, for gmlake replay."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gmlake.errors import CannotEnable, UserError
from gmlake.output import check_target

if TYPE_CHECKING:
    from gmlake.torch.looking import Device


class Lender(Protocol):
    """A recording of the whole process, by `gmlake run`: its history is lent to gmlake.record() for a while."""

    def lend(self) -> bool:
        """Let the history start anew, and leave it alone until it is taken back; False if that cannot be now."""

    def take_back(self) -> None:
        """The history may go on as it was."""


lender: Lender | None = None


@contextmanager
def record(
    path: str | Path, *, device: Device = None, max_entries: int = 10_000_000, force: bool = False
) -> Iterator[None]:
    """Write the allocations and frees of one device inside the `with` to a file; its suffix says in which format.

    .gmt is ours and the smallest, .pickle opens in PyTorch's memory viewer; `gmlake replay FILE` reads all, .json too.
    The device is named as for PyTorch; None is the one that is current at the beginning. Blocks that were in use before
    are part of the trace. With more than `max_entries` events the oldest are dropped.
    """
    from gmlake.torch import activation, history, looking
    from gmlake.trace.reading import format_to_write

    target = Path(path)
    if not activation.is_enabled():
        raise CannotEnable("gmlake.record() shows what GMLake serves; call gmlake.enable() or set GMLAKE=1 first")
    number = looking.index_of(device)
    format_to_write(target, None)
    check_target(target, force, "pass force=True")
    lent = lender if lender is not None and lender.lend() else None
    if lent is None:
        if history.is_recording():
            raise UserError("PyTorch's memory history is being recorded; stop that before gmlake.record()")
        history.record("all", context=None, stacks="python", max_entries=max_entries)
    recorded = _Recorded(target, number, max_entries, force, lent)
    try:
        yield
    except BaseException:  # for lack of memory maybe: it has a trace worth looking at, and is itself what matters
        try:
            told = recorded.finish()
        except Exception as error:
            told = f"{target} was not written: {error}"
        if told:
            print(f"gmlake: {told}", file=sys.stderr)
        raise
    if told := recorded.finish():
        warnings.warn(told, RuntimeWarning, stacklevel=3)


class _Recorded:
    """What has been recorded from now on, until it is finished."""

    def __init__(self, target: Path, device: int, entries: int, force: bool, lent: Lender | None) -> None:
        from gmlake.torch import history

        self._target = target
        self._device = device
        self._entries = entries
        self._force = force
        self._lent = lent
        self._losses = history.losses()

    def finish(self) -> str:
        """Stop, and write what there is; what is to be said about it, if anything."""
        from gmlake.torch import history, snapshot
        from gmlake.trace import write_trace
        from gmlake.trace.formats.snapshot_history import read_device

        target, device = self._target, self._device
        lost = history.losses() != self._losses
        try:
            taken = snapshot.take()
        finally:
            if self._lent is None:
                history.record(None)
            else:
                self._lent.take_back()
        events = taken["device_traces"][device][-self._entries :] if device < len(taken["device_traces"]) else []
        if not any(event["action"] in ("alloc", "free_requested") for event in events):
            off = "PyTorch's memory history was switched off or cleared inside the `with`"
            return f"{target} was not written: {off if lost else f'nothing was allocated or freed on device {device}'}"
        segments = [segment for segment in taken["segments"] if segment["device"] == device]
        write_trace(read_device(taken, events, segments, device, target.stem), target, force=self._force)
        if lost:
            return (
                f"{target} lacks its beginning: PyTorch's memory history was switched off or cleared inside the `with`"
            )
        return ""
