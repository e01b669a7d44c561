"""What is counted: needs, what is live at the peak, sizes, lifetimes, driver calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from gmlake.output import readable
from gmlake.plot.style import Theme, bytes_axis, panels, size_text
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
        top = max(1, *(value or 0 for value in values), subject.results[0].peak_active)
        for place, (name, value) in enumerate(zip(names, values, strict=True)):
            text = "out of memory" if value is None else size_text(value)
            panel.barh(place, value or 0, color=colours[name], height=0.62)
            panel.annotate(f" {text}", (value or 0, place), va="center", fontsize=9)
        panel.axvline(subject.results[0].peak_active, color=theme["ink"], linestyle=":", linewidth=1)
        _rows(panel, names)
        panel.set_xlim(0, top * 1.18)
        bytes_axis(panel.xaxis, top * 1.18)
        panel.set_title(f"{subject.name} (dotted: active memory)")
    return figure


def peak(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """What is live at the peak, largest first."""
    figure, axes = panels(len(subjects), 1, look, 4)
    for (panel,), subject in zip(axes, subjects, strict=True):
        assert subject.trace is not None
        blocks = figures.blocks_of(subject.trace)
        event = figures.peak_event(figures.active(blocks, len(subject.trace)))
        groups = figures.live_groups(subject.trace, blocks, event)
        rest = groups[MOST:]
        groups = groups[:MOST]
        if rest:
            total = sum(group.bytes for group in rest)
            groups.append(figures.Group(f"{len(rest)} more", sum(group.blocks for group in rest), total))
        top = max((group.bytes for group in groups if group.bytes), default=1)
        for place, group in enumerate(groups):
            panel.barh(place, group.bytes, color=palette.ALLOCATORS["gmlake"], height=0.7)
            panel.annotate(
                f" {size_text(group.bytes)} in {group.blocks:,}", (group.bytes, place), va="center", fontsize=8
            )
        _rows(panel, [_short(group.name) for group in groups])
        panel.set_xlim(0, top * 1.25)
        bytes_axis(panel.xaxis, top * 1.25)
        by = "call site" if blocks.site is not None else "size"
        panel.set_title(f"{subject.name}: live at event {event:,}, by {by}")
    return figure


def sizes(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Blocks by size."""
    return _histograms(subjects, look, figures.size_histogram, "sizes of blocks")


def lifetimes(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Blocks by lifetime."""
    return _histograms(subjects, look, figures.lifetime_histogram, "lifetimes of blocks, in events")


def calls(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """Memory calls to the driver in every iteration, on a scale on which both none and thousands are readable."""
    figure, axes = panels(len(subjects), 1, look, 3)
    for (panel,), subject in zip(axes, subjects, strict=True):
        colours = palette.allocator_colours([result.allocator for result in subject.results])
        for number, result in enumerate(subject.results):
            made, colour = result.iteration_driver_calls, colours[result.allocator]
            at = np.arange(1, len(made) + 1)
            panel.plot(at, made, color=colour, marker="o", markersize=3, label=result.allocator, zorder=9 - number)
        panel.set_yscale("symlog", linthresh=1)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.set_xlabel("iteration")
        panel.set_ylabel("driver calls")
        panel.set_title(subject.name)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4)
    return figure


def _histograms(subjects: Sequence[Subject], look: Look, of: Any, title: str) -> Figure:
    figure, axes = panels(len(subjects), 1, look, 3.4)
    for (panel,), subject in zip(axes, subjects, strict=True):
        assert subject.trace is not None
        histogram = of(figures.blocks_of(subject.trace))
        first = int(np.argmax(histogram.blocks > 0)) if len(histogram.blocks) else 0  # nothing below
        names = histogram.names[first:]
        panel.bar(range(len(names)), histogram.blocks[first:], color=palette.ALLOCATORS["gmlake"], width=0.8)
        panel.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
        panel.grid(visible=False, axis="x")
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.set_ylabel("blocks")
        panel.set_title(f"{subject.name}: {title}")
    return figure


def _rows(panel: Any, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")


def _short(name: str) -> str:
    return readable(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…")
