"""From the history in PyTorch's memory to the traces of this process, when it ends.

Iterations and calls of empty_cache were noted as so many allocations and frees of a device. They are counted from the
end here, because a history that is full has lost its beginning.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gmlake.emulator.inside.settings import Settings
from gmlake.trace import Kind, Trace, write_trace
from gmlake.trace.building import insert_events, insert_marks
from gmlake.trace.formats.snapshot_history import read_device
from gmlake.trace.trace import I64

Count = tuple[int, int]  # allocations and frees so far


def write_traces(
    settings: Settings,
    totals: Sequence[Count],
    marks: Sequence[Sequence[Count]],
    trims: Sequence[Sequence[Count]],
    entries: int,
) -> list[dict[str, Any]]:
    """One file in the session's folder for every device with events, and a line about each.

    `marks` and `trims` are moments, and every moment has a count for each device, as `totals` has for the end.
    """
    written = []
    gc.disable()  # millions of small objects are about to be made, none of them garbage; the process ends anyway
    snapshot = torch.cuda.memory._snapshot()
    for device, events in enumerate(snapshot["device_traces"]):
        if not events:
            continue
        segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
        trace = read_device(snapshot, events, segments, device, f"device {device}").trace
        full = len(events) >= entries
        events.clear()  # what follows needs memory too
        trim_places = _places(trace, [moment[device] for moment in trims], totals[device])
        trace = insert_events(trace, Kind.TRIM, trim_places)
        trace = insert_marks(trace, _places(trace, [moment[device] for moment in marks], totals[device]), "recorded")
        path = settings.session / f"trace-{os.getpid()}-{device}.gmt"
        write_trace(trace, path)
        written.append(
            {
                "device": device,
                "file": path.name,
                "events": len(trace),
                "allocations": trace.allocations,
                "iterations": trace.iterations,
                "beginning_lost": full,
            }
        )
    return written


def _places(trace: Trace, moments: Sequence[Count], total: Count) -> I64:
    """The events before which the moments lie; those from before the history began are dropped."""
    columns = []
    for which, kind in enumerate((Kind.ALLOCATE, Kind.FREE)):
        events = np.flatnonzero(trace.kind[trace.initial :] == kind) + trace.initial
        # After the n-th event of its kind; the beginning of the history is after the 0-th.
        after = np.concatenate(([trace.initial], events + 1))
        lost = total[which] - len(events)
        columns.append([after[moment[which] - lost] if moment[which] >= lost else -1 for moment in moments])
    both = np.array(columns, dtype=np.int64).reshape(2, -1)
    places: I64 = both.max(axis=0)[both.min(axis=0) >= 0]
    return places
