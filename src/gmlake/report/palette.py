"""The colours of reports and plots: one palette, safe for the colour-blind, for light and dark.

Allocators and groups take colours that Okabe and Ito chose to be told apart by everyone, and where those run out some
of Paul Tol's; what has an order (sizes, lifetimes, numbers of pieces) takes steps of one scale that also grows in
lightness.
"""

from __future__ import annotations

from typing import Any

# Fixed for those we know, so that an allocator looks the same in every picture.
ALLOCATORS = {
    "gmlake": "#0072b2",
    "caching": "#d55e00",
    "expandable": "#e69f00",
    "paper": "#009e73",
    "bfc": "#cc79a7",
    "native": "#56b4e9",
}
GROUPS = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#f0e442")
MORE = ("#882255", "#117733", "#004488", "#ee6677", "#999933")  # for variants, beside all of the above
OTHERS = "#8a919c"
# From dark violet to yellow in ten steps.
SCALE = (
    "#46237a",
    "#453882",
    "#3b528b",
    "#2c728e",
    "#21908d",
    "#27ad81",
    "#5dc863",
    "#94d840",
    "#cde01d",
    "#fde725",
)
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "paper": "#ffffff",
        "ink": "#1b1f24",
        "faint": "#6a737d",
        "grid": "#e4e7eb",
        "active": "#6e7781",
        "held": "#d5dae1",
        "alarm": "#c9302c",
    },
    "dark": {
        "paper": "#14171c",
        "ink": "#e6e9ee",
        "faint": "#98a2ae",
        "grid": "#2a3038",
        "active": "#aab2bd",
        "held": "#2c323b",
        "alarm": "#ff6b62",
    },
}


def allocator_colours(names: list[str]) -> dict[str, str]:
    """A colour for each allocator; those we do not know by name, such as variants, take what is left."""
    known = {name: ALLOCATORS[name] for name in names if name in ALLOCATORS}
    every = dict.fromkeys((*MORE, *GROUPS))  # those of allocators that are not there come last
    left = [colour for colour in every if colour not in known.values()]
    unknown = (name for name in names if name not in known)
    known |= {name: left[number % len(left)] for number, name in enumerate(unknown)}
    return known


def for_page() -> dict[str, Any]:
    """What the page needs to know."""
    return {"groups": GROUPS, "others": OTHERS, "scale": SCALE, "themes": THEMES}
