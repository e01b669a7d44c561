"""The memory map. Few blocks are drawn as boxes with their sizes; many as an image in which each pixel shows what is
there at its centre, like in the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gmlake.plot.overtime import shown
from gmlake.plot.style import NARROW, Theme, bytes_axis, events_axis, panels, room, size_text, titled, wrapped
from gmlake.replay.engine import Run
from gmlake.report import Subject, figures, palette
from gmlake.trace.trace import I64

if TYPE_CHECKING:
    from gmlake.plot import Look

FEW = 60  # blocks that get boxes
WIDTH, HEIGHT = 1800, 900  # of an image
KEYED = 6  # inches that leave room for a key to the sizes
_SMALLEST = 11  # class of 1 MiB: smaller blocks share a colour


def memory_map(subjects: Sequence[Subject], theme: Theme, look: Look) -> Figure:
    """A row per trace, which is named if there are several, a column per allocator."""
    columns = max(len(subject.runs) for subject in subjects)
    traces = [subject.trace for subject in subjects if subject.trace is not None]
    largest = max(int(_classes(figures.blocks_of(trace)).max(initial=1)) for trace in traces)
    coloured = False  # by size
    figure, axes = panels(len(subjects), columns, look, 3.9, width=4.6 * columns if columns > 1 else 8)
    for row, subject in zip(axes, subjects, strict=True):
        assert subject.trace is not None
        blocks = figures.blocks_of(subject.trace)
        low, high = shown(subject.trace, look)
        top = max(
            int((run.memory_map.held[:, 1:].sum(axis=1)).max(initial=1)) for run in subject.runs if run.memory_map
        )
        for panel, run in zip(row, subject.runs, strict=True):
            coloured |= _draw(panel, run, blocks, (low, high), theme, len(subject.trace), largest)
            titled(panel, f"{run.result.allocator}: {size_text(run.result.peak_reserved)} reserved")
            panel.grid(visible=False)
            panel.set_ylim(0, top * 1.04)
            bytes_axis(panel.yaxis, top * 1.04)
            events_axis(panel, low, high)
            if run is not subject.runs[0] and room(panel)[0] < 2:
                panel.tick_params(labelleft=False)  # as to its left
            if run.result.capacity is not None:
                panel.axhline(run.result.capacity, color=theme["alarm"], linestyle="--", linewidth=1)
        if len(subjects) > 1:
            row[0].set_ylabel(wrapped(subject.name, room(row[0])[1], 10), weight="bold")
    handles = [
        Patch(color=theme["held"], label="reserved, not in use"),
        Patch(facecolor="none", edgecolor=theme["faint"], hatch="////", label="stitched from scattered pieces"),
    ]
    coloured &= figure.get_figwidth() > KEYED
    if coloured:
        handles += [Patch(color=_colour(step, largest), label=_size_name(step)) for step in _steps(largest)]
    wide = figure.get_figwidth() > NARROW + 1
    figure.legend(handles=handles, loc="outside lower center", ncols=(3 if coloured else 2) if wide else 1)
    return figure


def _steps(largest: int) -> list[int]:
    """Classes of sizes that stand for all in the key."""
    return sorted({0, round(largest / 3), round(2 * largest / 3), largest})


def _size_name(step: int) -> str:
    if step == 0:
        return f"blocks up to {size_text(512 << _SMALLEST)}"
    return f"blocks of {figures.class_name(_SMALLEST + step)}"


def _colour(step: int, largest: int) -> tuple[float, float, float]:
    red, green, blue, _ = LinearSegmentedColormap.from_list("sizes", palette.SCALE)(step / largest)
    return red, green, blue


def _draw(
    panel: Any,
    run: Run,
    blocks: figures.Blocks,
    window: tuple[int, int],
    theme: Theme,
    events: int,
    largest: int,
) -> bool:
    """Whether colours tell sizes."""
    assert run.memory_map is not None
    until = events if run.result.out_of_memory is None else run.result.out_of_memory + 1
    held = figures.held_spans(run.memory_map, until)
    of, place, size = run.memory_map.pieces.T
    boxes = np.stack([blocks.start[of], np.minimum(blocks.end[of], until), place, size], axis=1)
    seen = (boxes[:, 0] < window[1]) & (boxes[:, 1] > window[0])
    boxes, of = boxes[seen], of[seen]
    stitched = (np.bincount(of, minlength=len(blocks.size)) > 1)[of]
    if len(np.unique(of)) <= FEW:
        _boxes(panel, held, boxes, of, stitched, blocks, theme)
        return False
    _image(panel, held, boxes, _classes(blocks)[of], stitched, window, theme, largest)
    return True


def _boxes(
    panel: Any, held: I64, boxes: I64, of: I64, stitched: npt.NDArray[np.bool_], blocks: figures.Blocks, theme: Theme
) -> None:
    for begin, end, place, size in held.tolist():
        panel.add_patch(Rectangle((begin, place), end - begin, size, facecolor=theme["held"], edgecolor="none"))
    highest = max(int((held[:, 2] + held[:, 3]).max(initial=1)), 1)
    for (begin, end, place, size), block, several in zip(boxes.tolist(), of.tolist(), stitched.tolist(), strict=True):
        colour = palette.GROUPS[block % len(palette.GROUPS)]
        hatch = "////" if several else None
        style = {"facecolor": f"{colour}b0", "edgecolor": theme["paper"], "linewidth": 0.8, "hatch": hatch}
        panel.add_patch(Rectangle((begin, place), end - begin, size, **style))
        if size > highest / 26:
            middle = ((begin + end) / 2, place + size / 2)
            text = size_text(size if several else blocks.size[block])
            panel.annotate(text, middle, ha="center", va="center", fontsize=7, color=theme["ink"], clip_on=True)


def _image(
    panel: Any,
    held: I64,
    boxes: I64,
    classes: I64,
    stitched: npt.NDArray[np.bool_],
    window: tuple[int, int],
    theme: Theme,
    largest: int,
) -> None:
    top = int(max((held[:, 2] + held[:, 3]).max(initial=1), 1))
    paper, grey = (np.array(to_rgb(theme[name])) for name in ("paper", "held"))
    image = np.broadcast_to(paper, (HEIGHT, WIDTH, 3)).copy()
    stripes = np.add.outer(np.arange(HEIGHT), np.arange(WIDTH)) % 8 < 2
    for rows, columns, _ in _cells(held, window, top):
        image[rows, columns] = grey
    colours = np.array([_colour(step, largest) for step in range(largest + 1)])
    for rows, columns, number in _cells(boxes, window, top):
        colour = colours[classes[number]]
        image[rows, columns] = colour
        if stitched[number]:
            part = image[rows, columns]
            part[stripes[rows, columns]] = 0.45 * colour + 0.55 * paper
    panel.imshow(image, extent=(*window, 0, top), origin="lower", aspect="auto", interpolation="nearest")


def _cells(boxes: I64, window: tuple[int, int], top: int) -> list[tuple[slice, slice, int]]:
    """The rows and columns of an image whose centres a box covers, for those that cover any."""
    low, high = window
    edges = np.stack([(boxes[:, 0] - low) / (high - low) * WIDTH, (boxes[:, 1] - low) / (high - low) * WIDTH])
    left, right = np.clip(np.ceil(edges - 0.5), 0, WIDTH).astype(np.int64)
    lines = np.stack([boxes[:, 2] / top * HEIGHT, (boxes[:, 2] + boxes[:, 3]) / top * HEIGHT])
    bottom, above = np.clip(np.ceil(lines - 0.5), 0, HEIGHT).astype(np.int64)
    some = np.flatnonzero((left < right) & (bottom < above)).tolist()
    return [(slice(bottom[i], above[i]), slice(left[i], right[i]), i) for i in some]


def _classes(blocks: figures.Blocks) -> I64:
    classes: I64 = np.maximum(figures.size_class(blocks.size) - _SMALLEST, 0)
    return classes
