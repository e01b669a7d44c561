"""Sweeps: order, errors and cancellation."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from gmlake.errors import InvalidArgument
from gmlake.replay import progress, sweep
from gmlake.replay.progress import ProgressDisplay
from gmlake.trace import Trace

from .conftest import FREE, MakeTrace


def test_results_come_in_the_order_of_the_arguments(loop_trace: Trace, make_trace: MakeTrace) -> None:
    traces = [loop_trace, make_trace([])]
    runs = sweep(traces, ["native", "caching"], jobs=4)
    assert [(run.result.allocator, run.result.events) for run in runs] == [
        ("native", len(loop_trace)),
        ("caching", len(loop_trace)),
        ("native", 0),
        ("caching", 0),
    ]


def test_a_bad_trace_ends_the_sweep_with_its_error(loop_trace: Trace, make_trace: MakeTrace) -> None:
    with pytest.raises(InvalidArgument, match=r"^typed on caching: .*allocation 3 is freed but not live"):
        sweep([loop_trace, make_trace([(FREE, 3, 0, 0)])], ["caching"], jobs=2)


def test_an_interrupt_ends_running_replays(loop_trace: Trace) -> None:
    class Interrupting(ProgressDisplay):
        def refresh(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep([loop_trace] * 50, ["caching"], jobs=1, display=Interrupting(50))
    assert threading.active_count() == 1


def test_brackets_in_a_name_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0)
    text = io.StringIO()
    with ProgressDisplay(1, Console(file=text, force_terminal=True, width=100)) as display:
        display.begin(0, "x[/y] · gmlake", 10)
        display.refresh()
    assert "x[/y] · gmlake" in text.getvalue()
