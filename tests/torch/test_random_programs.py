"""A thousand random programs (random_programs.py) on a card so small that memory is stitched, waited for and runs out:
no data is lost, nothing overlaps, nothing leaks, and the allocator's books balance throughout.
"""

from __future__ import annotations

from .conftest import Run


def test_a_thousand_random_programs(gmlake: Run) -> None:
    done = gmlake("random_programs.py", "--memory", "64MiB", "--kernel-us", "30", arguments=(1000, 0), timeout=1200)
    assert done["left"] == 0
    assert done["verified"] > 10_000
    assert done["out of memory"] > 100
    assert done["stitches"] > 300
