"""From the history in PyTorch's memory to the traces of this process.

Iterations and calls of empty_cache were noted as so many allocations and frees of a device. They are counted from the
end here, because a history that is full has lost its beginning.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gmlake.emulator.inside import native
from gmlake.trace import Kind, Trace, write_trace
from gmlake.trace.building import insert_events, insert_marks
from gmlake.trace.formats.snapshot_events import Parts
from gmlake.trace.formats.snapshot_history import read_parts
from gmlake.trace.trace import I64

Count = tuple[int, int]  # allocations and frees so far


class Collection:
    """The events of this process, collected from time to time, because PyTorch's own form of them is large."""

    def __init__(self, entries: int) -> None:
        """PyTorch keeps so many events, and then forgets the oldest."""
        self._entries = entries
        self._parts: dict[int, Parts] = {}  # by device
        self._lost: set[int] = set()  # devices with events that were forgotten

    def collect(self) -> dict[str, Any]:
        """Take over all events that PyTorch has; returns its snapshot, without events."""
        collecting = gc.isenabled()
        gc.disable()  # millions of small objects are about to be made, none of them garbage
        snapshot: dict[str, Any] = torch.cuda.memory._snapshot()
        for device, events in enumerate(snapshot["device_traces"]):
            if len(events) >= self._entries:
                self._lost.add(device)
                self._parts.pop(device, None)  # they do not fit together with what comes after a gap
            if events:
                self._parts.setdefault(device, Parts(device)).add(events)
            events.clear()
        if collecting:
            gc.enable()
        return snapshot

    def write(
        self,
        folder: Path,
        totals: Sequence[Count],
        marks: Sequence[Sequence[Count]],
        trims: Sequence[Sequence[Count]],
    ) -> list[dict[str, Any]]:
        """One trace for every device with events, and a line about each.

        `marks` and `trims` are moments, and every moment has a count for each device, as `totals` has for the end.
        """
        snapshot = self.collect()
        written = []
        for device, parts in self._parts.items():
            segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
            gpu = native.physical(device)
            trace = replace(read_parts(snapshot, parts, segments, f"device {gpu}"), device=gpu)
            of_device = [[moment[device] for moment in moments] for moments in (trims, marks)]
            trace = insert_events(trace, Kind.TRIM, _places(trace, of_device[0], totals[device]))
            trace = insert_marks(trace, _places(trace, of_device[1], totals[device]), "recorded")
            path = folder / f"trace-{os.getpid()}-{gpu}.gmt"
            write_trace(trace, path)
            written.append(
                {
                    "device": gpu,
                    "file": path.name,
                    "events": len(trace),
                    "allocations": trace.allocations,
                    "iterations": trace.iterations,
                    "beginning_lost": device in self._lost,
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
