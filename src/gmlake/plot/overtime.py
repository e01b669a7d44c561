"""What changes over time: active and reserved memory, and fragmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from gmlake.plot.style import Theme, bytes_axis, events_axis, legend_below, panels, size_text, titled
from gmlake.report import Subject, figures, palette
from gmlake.trace import Trace
from gmlake.trace.trace import I64

if TYPE_CHECKING:
    from gmlake.plot import Look

POINTS = 3000  # along a picture


def timeline(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Active memory, what each allocator reserves, the capacity, and where memory ran out; a row per trace."""
    figure, axes = panels(len(subjects), 1, look, 3)
    for (panel,), subject in zip(axes, subjects, strict=True):
        trace, active, reserved = levels(subject)
        low, high = shown(trace, look)
        at, most = buckets(active, low, high, np.maximum)
        panel.fill_between(at, most, step="post", color=theme["active"], alpha=0.3, linewidth=0, label="active")
        panel.plot(at, most, drawstyle="steps-post", color=theme["active"], linewidth=0.8)
        colours = palette.allocator_colours(list(reserved))
        for number, result in enumerate(subject.results):  # the first is drawn on top
            until = high if result.out_of_memory is None else min(high, result.out_of_memory + 1)
            at, most = buckets(reserved[result.allocator], low, max(until, low + 1), np.maximum)
            need = size_text(result.peak_reserved) if result.completed else "out of memory"
            label = f"{result.allocator}, {need}"
            colour, depth = colours[result.allocator], 9 - number
            panel.plot(at, most, drawstyle="steps-post", color=colour, linewidth=1.6, label=label, zorder=depth)
            if result.out_of_memory is not None and low <= result.out_of_memory <= high:
                level = reserved[result.allocator][min(result.out_of_memory, len(trace) - 1)]
                panel.plot([result.out_of_memory], [level], marker="X", markersize=9, color=colour, clip_on=False)
                panel.annotate("  out of memory", (result.out_of_memory, level), color=colour, fontsize=9, va="bottom")
        top = max([int(active.max(initial=1)), *(result.peak_reserved for result in subject.results)])
        capacity = subject.results[0].capacity if subject.results else None
        if capacity is not None:
            panel.axhline(capacity, color=theme["alarm"], linestyle="--", linewidth=1)
            panel.annotate(
                f"capacity {size_text(capacity)}",
                (1, capacity),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                color=theme["alarm"],
                fontsize=9,
            )
            top = max(top, capacity)
        titled(panel, subject.name)
        panel.set_ylim(0, top * 1.08)
        bytes_axis(panel.yaxis, top * 1.08)
        events_axis(panel, low, high)
        legend_below(panel, look, 3)
    return figure


def fragmentation(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """The share of what is reserved that is not active, averaged where events share a point."""
    figure, axes = panels(len(subjects), 1, look, 2.6)
    for (panel,), subject in zip(axes, subjects, strict=True):
        trace, active, reserved = levels(subject)
        low, high = shown(trace, look)
        colours = palette.allocator_colours(list(reserved))
        for number, result in enumerate(subject.results):
            until = high if result.out_of_memory is None else max(low + 1, min(high, result.out_of_memory))
            at, held = buckets(reserved[result.allocator], low, until, np.add)
            _, used = buckets(active, low, until, np.add)
            share = np.where(held > 0, 1 - used / np.maximum(held, 1), 0)
            colour, percent = colours[result.allocator], 100 * np.clip(share, 0, 1)
            panel.plot(at, percent, color=colour, linewidth=1, label=result.allocator, zorder=9 - number)
        titled(panel, subject.name)
        panel.set_ylim(0, 100)
        panel.set_ylabel("fragmentation, %")
        events_axis(panel, low, high)
        legend_below(panel, look, 4)
    return figure


def levels(subject: Subject) -> tuple[Trace, I64, dict[str, I64]]:
    """The trace, active memory after every event, and reserved memory by allocator."""
    assert subject.trace is not None
    events = len(subject.trace)
    active = figures.active(figures.blocks_of(subject.trace), events)
    reserved = {
        run.result.allocator: figures.reserved(run.memory_map, events)
        for run in subject.runs
        if run.memory_map is not None
    }
    return subject.trace, active, reserved


def shown(trace: Trace, look: Look) -> tuple[int, int]:
    """The first event of the picture, and the one after the last."""
    low, high = look.events or (0, len(trace))
    return max(0, min(low, len(trace) - 1)), max(1, min(high, len(trace)))


def buckets(values: I64, low: int, high: int, combine: np.ufunc) -> tuple[I64, I64]:
    """At most POINTS events, and the values from each to the next, combined; then the end, or the last had no width."""
    high = min(high, len(values))
    if low >= high:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    at = np.unique(np.linspace(low, high, min(POINTS, max(high - low, 1)), endpoint=False).astype(np.int64))
    combined: I64 = combine.reduceat(values[:high], at)
    return np.append(at, high), np.append(combined, combined[-1])
