"""Tables of campaigns, as a person sees them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gmlake.workloads.tables import Table

HEADS = ("workload", "active", "gmlake: quiet after", "saved")
ROWS = (("opt-1.3b/fsdp2/R/4gpu/b112/fix", "36.2", "36.5 (99.2)", "12.9"), ("tiny", "0.2", "0.2 (86.3)", "0.17"))


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_no_figure_is_cut_on_a_narrow_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    Table("Title", "How to read it", HEADS, ROWS).show(console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for cell in (*(word for head in HEADS for word in head.split()), *ROWS[0], *ROWS[1]):
        assert cell in text
