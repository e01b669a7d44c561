"""How pictures look: the themes of the report as matplotlib settings, sizes in words, and saving."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from gmlake import _core
from gmlake.output import readable, write_whole
from gmlake.report import palette

if TYPE_CHECKING:
    from gmlake.plot import Look

Theme = dict[str, str]
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
        figure.suptitle(readable(look.title), x=0.01, ha="left", weight="bold")
    return figure, axes.tolist()


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
    step = 512
    while highest / step > 6:
        step *= 2
    marks = range(0, int(highest) + 1, step)
    axis.set_major_locator(FixedLocator([*marks]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: size_text(value)))


def size_text(value: float) -> str:
    """Bytes in words, without needless digits."""
    return _core.format_bytes(int(value)).replace(".00 ", " ")


def events_axis(axes: Any, low: int, high: int) -> None:
    """Time, in events."""
    axes.set_xlim(low, max(high, low + 1))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("event")
