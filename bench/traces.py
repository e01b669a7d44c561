"""The traces that benchmarks replay: the bundled ones, and recorded ones beside the repository if any."""

from __future__ import annotations

from bench.building import ROOT
from gmlake.trace import Trace, bundled_names, read_trace

_RECORDED = ROOT.parent / "shared" / "data"


def bundled() -> list[Trace]:
    """The traces that come with the package."""
    return [read_trace(name) for name in bundled_names()]


def recorded() -> list[Trace]:
    """Further traces, none if the folder is missing."""
    files = [*_RECORDED.glob("*.snapshot.json.gz"), *_RECORDED.glob("traces/*.npz")]
    return [read_trace(file) for file in sorted(files)]
