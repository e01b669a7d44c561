"""What is counted: needs, what is live at the peak, sizes, lifetimes, driver calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from gmlake import _core
from gmlake.output import readable
from gmlake.plot.style import Theme, bytes_axis, counts, legend_below, panels, room, size_text, titled, wrapped
from gmlake.report import Subject, figures, palette

if TYPE_CHECKING:
    from gmlake.plot import Look

MOST = 16  # groups that are shown
_LONGEST = 44  # letters of a name


def needs(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """What each run needs under each allocator; a row per subject."""
    longest = max(len(subject.results) for subject in subjects)
    figure, axes = panels(len(subjects), 1, look, 0.9 + 0.42 * longest)
    for (panel,), subject in zip(axes, subjects, strict=True):
        names = [result.allocator for result in subject.results]
        colours = palette.allocator_colours(names)
        values = [result.needs for result in subject.results]
        active = _active(subject)
        top = max(1, *(value or 0 for value in values), active)
        for place, (name, value) in enumerate(zip(names, values, strict=True)):
            text = "out of memory" if value is None else size_text(value)
            panel.barh(place, value or 0, color=colours[name], height=0.62)
            panel.annotate(f" {text}", (value or 0, place), va="center", fontsize=9)
        panel.axvline(active, color=theme["ink"], linestyle=":", linewidth=1)
        _rows(panel, [wrapped(name, 0.4 * figure.get_figwidth(), 10) for name in names])
        _until(panel, top, 1.1)
        titled(panel, f"{subject.name} (dotted: active memory)", 0.6 * figure.get_figwidth())
    return figure


def _active(subject: Subject) -> int:
    """At the peak of the trace; where it is not at hand, of what was fed before memory ran out."""
    if subject.trace is None:
        return max(result.peak_active for result in subject.results)
    _, active = _core.trace_peaks(subject.trace.kind, subject.trace.id, subject.trace.size, subject.trace.stream)
    return active


def peak(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """What is live at the peak, largest first."""
    figure, axes = panels(len(subjects), 1, look, 4)
    for (panel,), subject in zip(axes, subjects, strict=True):
        assert subject.trace is not None
        blocks = figures.blocks_of(subject.trace)
        event = figures.peak_event(figures.active(blocks, len(subject.trace)))
        groups = figures.live_groups(subject.trace, blocks, event)
        most = min(MOST, max(3, int(room(panel)[1] / 0.19)))
        rest = groups[most:]
        groups = groups[:most]
        if rest:
            total = sum(group.bytes for group in rest)
            groups.append(figures.Group(f"{len(rest)} more", sum(group.blocks for group in rest), total))
        top = max((group.bytes for group in groups if group.bytes), default=1)
        for place, group in enumerate(groups):
            panel.barh(place, group.bytes, color=palette.ALLOCATORS["gmlake"], height=0.7)
            panel.annotate(
                f" {size_text(group.bytes)} in {group.blocks:,}", (group.bytes, place), va="center", fontsize=8
            )
        _rows(panel, [_short(group.name, figure.get_figwidth()) for group in groups])
        _until(panel, top, 1.5)
        by = "call site" if blocks.site is not None else "size"
        titled(panel, f"{subject.name}: live at event {event:,}, by {by}", 0.6 * figure.get_figwidth())
    return figure


def sizes(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Blocks by size."""
    return _histograms(subjects, look, figures.size_histogram, "sizes of blocks")


def lifetimes(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Blocks by lifetime."""
    return _histograms(subjects, look, figures.lifetime_histogram, "lifetimes of blocks, in events")


def calls(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Memory calls to the driver in every iteration, on a scale on which both none and thousands are readable."""
    figure, axes = panels(len(subjects), 1, look, 2.8)
    for (panel,), subject in zip(axes, subjects, strict=True):
        colours = palette.allocator_colours([result.allocator for result in subject.results])
        for number, result in enumerate(subject.results):
            made, colour = result.iteration_driver_calls, colours[result.allocator]
            at = range(len(made))  # counted from 0, as by gmlake convert
            panel.plot(at, made, color=colour, marker="o", markersize=3, label=result.allocator, zorder=9 - number)
        panel.set_yscale("symlog", linthresh=1)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        counts(panel.xaxis)
        panel.set_xlabel("iteration")
        panel.set_ylabel("driver calls")
        titled(panel, subject.name)
        legend_below(panel, look, 4)
    return figure


def _histograms(
    subjects: Sequence[Subject], look: Look, of: Callable[[figures.Blocks], figures.Histogram], title: str
) -> Figure:
    figure, axes = panels(len(subjects), 1, look, 3.4)
    for (panel,), subject in zip(axes, subjects, strict=True):
        assert subject.trace is not None
        histogram = of(figures.blocks_of(subject.trace))
        first = int(np.argmax(histogram.blocks > 0)) if len(histogram.blocks) else 0  # nothing below
        names = histogram.names[first:]
        panel.bar(range(len(names)), histogram.blocks[first:], color=palette.ALLOCATORS["gmlake"], width=0.8)
        named = slice(None, None, 1 + int(0.14 * len(names) / room(panel)[0]))
        panel.set_xticks(
            range(len(names))[named], names[named], rotation=45, ha="right", rotation_mode="anchor", fontsize=8
        )
        panel.grid(visible=False, axis="x")
        panel.set_ylim(0, max(1, 1.05 * histogram.blocks.max(initial=0)))
        counts(panel.yaxis)
        panel.set_ylabel("blocks")
        titled(panel, f"{subject.name}: {title}")
    return figure


def _rows(panel: Any, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")


def _until(panel: Any, top: int, inches: float) -> None:
    """Up to the longest bar, and so much further that the words at its end fit."""
    high = top * (1 + inches / room(panel)[0])
    panel.set_xlim(0, high)
    bytes_axis(panel.xaxis, high)


def _short(name: str, inches: float) -> str:
    longest = min(_LONGEST, int(5.5 * inches))
    return readable(name if len(name) <= longest else f"{name[:longest]}…")
