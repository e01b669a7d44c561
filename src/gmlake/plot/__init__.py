"""Pictures as PNG, SVG or PDF for papers and chats: what a report shows, one kind at a time, drawn by matplotlib.

matplotlib is an optional dependency: nothing else of gmlake imports this package.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gmlake.errors import UserError
from gmlake.report import Subject

SUFFIXES = (".png", ".svg", ".pdf")
KINDS = {
    "timeline": "active and reserved memory over time",
    "map": "which blocks lie where in physical memory, over time",
    "peak": "what is live at the peak, by call site or by size",
    "needs": "what the run needs under each allocator",
    "sizes": "how many blocks of which size",
    "lifetimes": "how many blocks live how long",
    "fragmentation": "1 minus active / reserved, over time",
    "calls": "driver calls in every iteration",
}
OF_RESULTS = ("needs", "calls")  # what can be drawn without a trace
OVER_TIME = ("timeline", "map", "fragmentation")  # what can show a stretch of time
MOST_PIXELS = 50_000_000  # of which a memory map takes 80 bytes each while it is drawn
LONGEST_SIDE = 65_535  # pixels; matplotlib may refuse more


@dataclass(frozen=True)
class Look:
    """How a picture looks. `events` is the stretch of time that is shown by what is OVER_TIME, None: all."""

    style: str = "light"
    size: tuple[float, float] | None = None  # inches
    dpi: int = 160
    title: str | None = None
    events: tuple[int, int] | None = None


USUAL = Look()


def check_library() -> None:
    """Say what to do if matplotlib is not there."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("gmlake plot draws with matplotlib, which is not installed; try: pip install 'gmlake[plot]'")


def check_look(kind: str, output: Path, look: Look) -> None:
    """Refuse what could not be drawn, before any work is done."""
    if look.events is not None and kind not in OVER_TIME:
        raise UserError(f"--events is for what is drawn over time ({', '.join(OVER_TIME)}), not for {kind}")
    if look.size is not None:
        _check_pixels(kind, output, look.size, look.dpi)


def write(subjects: Sequence[Subject], kind: str, output: Path, look: Look = USUAL) -> None:
    """Draw one picture of everything that was gathered; whatever stands there is replaced."""
    check_library()
    check_look(kind, output, look)
    from gmlake.plot import bars, maps, overtime, style

    for subject in subjects:
        if subject.trace is None and (kind not in OF_RESULTS or not subject.results):
            if not subject.results:
                raise UserError(
                    f"{subject.name}: of a run's summary nothing can be drawn; record it with --record, or look at it "
                    "with gmlake report"
                )
            known = " and ".join(OF_RESULTS)
            raise UserError(f"{subject.name}: is no trace; of saved results {known} can be drawn, not {kind}")
        if kind == "calls" and not any(result.iteration_driver_calls for result in subject.results):
            raise UserError(f"{subject.name}: there is no iteration whose driver calls could be drawn")
        if look.events is not None and subject.trace is not None and look.events[0] >= len(subject.trace):
            first, last = look.events
            raise UserError(
                f"{subject.name} has {len(subject.trace):,} events: --events {first}..{last} is past its end"
            )
    drawing = {
        "timeline": overtime.timeline,
        "fragmentation": overtime.fragmentation,
        "map": maps.memory_map,
        "peak": bars.peak,
        "needs": bars.needs,
        "sizes": bars.sizes,
        "lifetimes": bars.lifetimes,
        "calls": bars.calls,
    }[kind]
    with style.themed(look.style) as theme:
        figure = drawing(subjects, theme, look)
        _check_pixels(kind, output, figure.get_size_inches(), look.dpi)
        try:
            style.save(figure, output, look)
        except MemoryError as error:
            raise UserError("the picture needs more memory than there is; choose a smaller --size or --dpi") from error


def _check_pixels(kind: str, output: Path, inches: Sequence[float], dpi: int) -> None:
    """Refuse more pixels than fit into memory. SVG and PDF have none, but for the image that a memory map may be."""
    if output.suffix.lower() != ".png" and kind != "map":
        return
    width, height = (round(side * dpi) for side in inches)
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
        raise UserError(
            f"a picture of {width:,} x {height:,} pixels is too large, at most {MOST_PIXELS // 10**6} million and "
            f"{LONGEST_SIDE:,} a side are drawn; choose a smaller --size or --dpi"
        )
