"""How pictures look: the themes of the report as matplotlib settings, what fits into a size, sizes in words, saving."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from gmlake import _core
from gmlake.output import readable, write_whole
from gmlake.report import palette

if TYPE_CHECKING:
    from gmlake.plot import Look

Theme = dict[str, str]
NARROW = 3.5  # inches
_FORGET = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}  # the same input, the same file


@contextmanager
def themed(name: str) -> Iterator[Theme]:
    """Settings for everything that is drawn inside; gives the theme's colours."""
    theme = palette.THEMES[name]
    settings: dict[str, Any] = {
        "figure.facecolor": theme["paper"],
        "axes.facecolor": theme["paper"],
        "savefig.facecolor": theme["paper"],
        "text.color": theme["ink"],
        "axes.edgecolor": theme["faint"],
        "axes.labelcolor": theme["ink"],
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme["grid"],
        "xtick.color": theme["faint"],
        "ytick.color": theme["faint"],
        "font.size": 10,
        "font.family": "sans-serif",
        "text.parse_math": False,  # a $ in a name is a $
        "legend.frameon": False,
        "legend.fontsize": 9,
        "hatch.linewidth": 0.8,
        "svg.fonttype": "none",
        "svg.hashsalt": "gmlake",
    }
    with mpl.rc_context(settings):
        yield theme


def panels(rows: int, columns: int, look: Look, height: float, width: float = 8) -> tuple[Figure, list[list[Any]]]:
    """A figure with a grid of axes."""
    figure = Figure(figsize=look.size or (width, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    if look.title:
        title = wrapped(readable(look.title), figure.get_figwidth(), 12)
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure, axes.tolist()


def wrapped(text: str, inches: float, points: float) -> str:
    """The text in lines that fit, broken at the joints of sentences and of allocators' options where it has some."""
    letters = max(11, int(inches * 72 / (0.62 * points)))
    lines = [""]
    for part in re.findall(rf"(?s).{{1,{letters}}}?(?<=[ ,:=_])|.{{1,{letters}}}", text):
        if len(lines[-1] + part.rstrip()) > letters:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def room(panel: Any) -> tuple[float, float]:
    """About how wide and high a panel will be, in inches."""
    width, height = panel.get_position().size * panel.figure.get_size_inches()
    return float(width), float(height)


def titled(panel: Any, text: str, inches: float | None = None) -> None:
    """Above the panel and no wider than it, or so wide: if need be in smaller letters and up to three lines."""
    inches = inches or room(panel)[0]
    if wrapped(text, inches, 11) == text:
        panel.set_title(text)
    else:
        first, *more = wrapped(text, inches, 8).split("\n")
        panel.set_title("\n".join([first, *more[:2]]) + ("…" if more[2:] else ""), fontsize=8)


def legend_below(panel: Any, look: Look, columns: int) -> None:
    """Below the names of the x axis, in at most so many columns; where nobody chose a size it makes its own room."""
    figure = panel.figure
    width, _ = room(panel)
    handles, labels = panel.get_legend_handles_labels()
    points = 9 if width > NARROW else 7
    labels = [wrapped(label, width - 0.5, points) for label in labels]
    below = panel.transAxes + ScaledTranslation(0, -0.4, figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below, "fontsize": points}
    for number in range(min(columns, len(labels)), 0, -1):
        box = panel.legend(handles, labels, ncols=number, **place).get_window_extent()
        if box.width <= width * figure.dpi:
            break
    if look.size is None:
        figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)


def save(figure: Figure, output: Path, look: Look) -> None:
    """Write the picture in the form that the suffix names."""
    suffix = output.suffix.lower()
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what does not fit into a small picture is cut: the user chose the size
        figure.savefig(picture, format=suffix[1:], dpi=look.dpi, metadata=_FORGET.get(suffix, {}))
    write_whole(output, picture.getvalue())


def bytes_axis(axis: Any, highest: float) -> None:
    """Marks at round sizes, which are powers of two, with their names."""
    width, height = room(axis.axes)
    most = min(6, max(2, width / 0.8 if axis.axis_name == "x" else height / 0.28))
    step = 512
    while highest / step > most:
        step *= 2
    marks = range(0, int(highest) + 1, step)
    axis.set_major_locator(FixedLocator([*marks]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: size_text(value)))


def counts(axis: Any) -> None:
    """Marks at whole numbers."""
    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def size_text(value: float) -> str:
    """Bytes in words, without needless digits."""
    return _core.format_bytes(int(value)).replace(".00 ", " ")


def events_axis(axes: Any, low: int, high: int) -> None:
    """Time, in events."""
    axes.set_xlim(low, max(high, low + 1))
    steps = 1 + int(room(axes)[0] / (0.22 + 0.085 * len(f"{high:,}")))
    prune = "lower" if steps == 1 else None  # two would not fit
    axes.xaxis.set_major_locator(MaxNLocator(min(5, steps), integer=True, prune=prune))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("event")
