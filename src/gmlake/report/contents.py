"""What the page knows of a subject: facts as plain data, long columns of numbers packed.

The page draws and looks up; whatever can be computed once is computed here. Physical places and reserved memory are
counted in units of 256 bytes, or more where that would not fit 32 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gmlake.replay import Result
from gmlake.replay.engine import MemoryMap
from gmlake.replay.table import closing_sentence
from gmlake.report import figures, packing, palette, sites
from gmlake.report.gathering import OF_DEVICE, Subject
from gmlake.trace import Trace


class Columns:
    """The packed columns of a page by name."""

    def __init__(self) -> None:
        """None yet."""
        self.packed: dict[str, str] = {}

    def add(self, column: npt.NDArray[Any]) -> dict[str, Any]:
        """Pack a column; what the page needs to find it again."""
        name = f"column-{len(self.packed)}"
        self.packed[name] = packing.pack_column(column)
        return {"column": name, "length": len(column)}


def describe(subject: Subject, columns: Columns) -> dict[str, Any]:
    """The subject as plain data that refers to columns."""
    results = subject.results
    known: dict[str, Any] = {
        "name": subject.name,
        "headline": headline(subject),
        "results": [result.to_json() for result in results],
        "colours": palette.allocator_colours([result.allocator for result in results]),
        "capacity": results[0].capacity if results else None,
        "processes": [_process(process) for process in subject.processes],
        "trace": None,
    }
    if subject.trace is not None:
        known["trace"] = _trace(subject.trace, subject, columns)
    return known


def headline(subject: Subject) -> str:
    """What it comes down to, in a sentence."""
    if not subject.results:
        return subject.saving or f"{len(subject.processes)} process{'es' if len(subject.processes) != 1 else ''}"
    first = subject.results[0]
    sentences = [closing_sentence(subject.results)]
    if sentences == [None] and first.needs is not None:
        sentences = [f"{first.allocator} needs {first.needs / 2**30:.2f} GiB."]
    stuck = [result.allocator for result in subject.results if not result.completed]
    if stuck:
        sentences.append(f"Out of memory: {', '.join(stuck)}.")
    return " ".join(filter(None, sentences))


def _process(process: dict[str, Any]) -> dict[str, Any]:
    backend = str(process.get("backend", "native"))
    return {
        "pid": process["pid"],
        "rank": process.get("rank"),
        "backend": "torch" if backend == "native" else backend,  # PyTorch's word for its own; ours means another one
        "devices": [{key: row.get(key) for key in OF_DEVICE} for row in process.get("devices", [])],
    }


def _trace(trace: Trace, subject: Subject, columns: Columns) -> dict[str, Any]:
    blocks = figures.blocks_of(trace)
    events = len(trace)
    active = figures.active(blocks, events)
    sizes, size = np.unique(blocks.size, return_inverse=True)
    return {
        "events": events,
        "allocations": len(blocks.start),
        "marks": trace.marks.tolist(),
        "iterations": trace.iterations,
        "initial": trace.initial,
        "streams": len(trace.streams),
        "peak": {"event": figures.peak_event(active), "active": int(active.max(initial=0))},
        "sizes": sizes.tolist(),
        "start": columns.add(blocks.start),
        "life": columns.add(blocks.end - blocks.start),
        "size": columns.add(size),
        "stream": columns.add(blocks.stream) if len(trace.streams) > 1 else None,
        "sites": _sites(trace, blocks, columns),
        "histograms": {
            "sizes": _histogram(figures.size_histogram(blocks)),
            "lifetimes": _histogram(figures.lifetime_histogram(blocks)),
        },
        "maps": {
            run.result.allocator: _map(run.memory_map, _until(run.result, events), columns)
            for run in subject.runs
            if run.memory_map is not None
        },
    }


def _sites(trace: Trace, blocks: figures.Blocks, columns: Columns) -> dict[str, Any] | None:
    if blocks.site is None or trace.call_sites is None:
        return None
    return {
        "of": columns.add(blocks.site + 1),  # 0: unknown
        "labels": sites.labels(trace.call_sites),
        "frames": [list(frame) for frame in trace.call_sites.frames],
        "stacks": [list(stack) for stack in trace.call_sites.stacks],
    }


def _until(result: Result, events: int) -> int:
    """How far the replay came: to the end, or through the event at which memory ran out."""
    return events if result.out_of_memory is None else result.out_of_memory + 1


def _map(memory_map: MemoryMap, events: int, columns: Columns) -> dict[str, Any]:
    spans = figures.held_spans(memory_map, events)
    pieces = memory_map.pieces
    top = int(max((spans[:, 2] + spans[:, 3]).max(initial=0), (pieces[:, 1] + pieces[:, 2]).max(initial=0)))
    reserved = figures.reserved(memory_map, events)
    unit = 256
    while max(top, int(reserved.max(initial=0))) // unit > packing.LARGEST:
        unit *= 2
    steps = np.flatnonzero(np.diff(reserved, prepend=-1))
    return {
        "until": events,
        "unit": unit,
        "top": top,
        "piece_of": columns.add(pieces[:, 0]),
        "piece_place": columns.add(pieces[:, 1] // unit),
        "piece_size": columns.add(pieces[:, 2] // unit),
        "held_begin": columns.add(spans[:, 0]),
        "held_life": columns.add(spans[:, 1] - spans[:, 0]),
        "held_place": columns.add(spans[:, 2] // unit),
        "held_size": columns.add(spans[:, 3] // unit),
        "reserved_at": columns.add(steps),
        "reserved_level": columns.add(reserved[steps] // unit),
    }


def _histogram(histogram: figures.Histogram) -> dict[str, Any]:
    return {"names": histogram.names, "blocks": histogram.blocks.tolist(), "bytes": histogram.bytes.tolist()}
