"""The tables a person sees."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from gmlake.replay import Result, Settings, sweep
from gmlake.replay.table import closing_sentence, show
from gmlake.trace import Trace

from .conftest import ALLOCATE, ITERATION, MakeTrace

GIB = 2**30


def render(trace: Trace, results: list[Result], width: int, calls: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width)
    show([trace], results, console, calls)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def results(loop_trace: Trace) -> list[Result]:
    return [run.result for run in sweep([loop_trace], ["caching", "native"], Settings(smallest_capacity=True))]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_rows_fit_the_terminal(loop_trace: Trace, results: list[Result], width: int) -> None:
    text = render(loop_trace, results, width)
    assert all(len(line) <= width for line in text.splitlines())
    rows = [line for line in text.splitlines() if line.startswith(("caching  ", "native  "))]
    assert len(rows) == 2
    assert all("…" not in row for row in rows)


def test_a_wide_terminal_shows_everything(loop_trace: Trace, results: list[Result]) -> None:
    text = render(loop_trace, results, 200, calls=True)
    for head in (
        "reserved",
        "util.",
        "frag.",
        "smallest",
        "driver ms",
        "CPU",
        "events/s",
        "allocate",
        "free",
    ):
        assert head in text
    assert "typed  86 events, 12 iterations" in text


def test_one_event_is_no_events(make_trace: MakeTrace) -> None:
    trace = make_trace([(ITERATION, 0, 0, 0), (ALLOCATE, 0, 512, 0)])
    assert "2 events, 1 iteration;" in render(trace, [run.result for run in sweep([trace], ["caching"])], 200)
    trace = make_trace([(ALLOCATE, 0, 512, 0)])
    assert "  1 event;" in render(trace, [run.result for run in sweep([trace], ["caching"])], 200)


def test_the_title_is_about_the_trace_wherever_memory_ran_out(loop_trace: Trace) -> None:
    runs = sweep([loop_trace], ["caching"], Settings(capacity=40 * 2**20))
    assert (runs[0].result.iterations, loop_trace.iterations) == (1, 12)
    assert "typed  86 events, 12 iterations" in render(loop_trace, [run.result for run in runs], 200)


def test_cpu_time_of_a_short_trace_has_digits(loop_trace: Trace, results: list[Result]) -> None:
    text = render(loop_trace, [dataclasses.replace(result, cpu_seconds=0.00054) for result in results], 200)
    rows = [line.split() for line in text.splitlines() if line.startswith(("caching  ", "native  "))]
    assert len(rows) == 2
    assert all(row.count("0.54") == 1 for row in rows)


def test_capacity_that_is_not_monotone_is_said(loop_trace: Trace, results: list[Result]) -> None:
    at = results[0].at_smallest_capacity
    assert at is not None
    odd = dataclasses.replace(results[0], at_smallest_capacity=dataclasses.replace(at, fails_above=(3 * GIB,)))
    assert "runs out of memory on 3.00 GiB" in " ".join(render(loop_trace, [odd, results[1]], 80).split())


def test_closing_sentence(results: list[Result]) -> None:
    def needing(allocator: str, capacity: float) -> Result:
        return dataclasses.replace(results[0], allocator=allocator, smallest_capacity=int(capacity * GIB))

    ours, theirs = needing("gmlake", 52.3), needing("caching", 118)
    assert closing_sentence([ours, theirs]) == "gmlake needs 52.3 GiB where PyTorch needs 118.0: 65.7 GiB less."
    assert closing_sentence([theirs, needing("gmlake", 119)]) == (
        "gmlake needs 119.0 GiB where PyTorch needs 118.0: 1.00 GiB more."
    )
    assert closing_sentence([ours, needing("caching", 52.3)]) == "gmlake needs 52.3 GiB, as much as PyTorch."
    assert closing_sentence([ours]) is None


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("times", [1, 5])
def test_counts_of_driver_calls_are_never_cut(loop_trace: Trace, results: list[Result], width: int, times: int) -> None:
    many = dict.fromkeys(results[0].driver_calls, 304_232)
    shown = [dataclasses.replace(result, driver_calls=many) for result in results * times]
    assert render(loop_trace, shown, width, calls=True).count("304,232") == len(shown) * len(many)


def test_figures_stay_whole_beside_a_long_name(loop_trace: Trace, results: list[Result]) -> None:
    long = dataclasses.replace(results[0], allocator="caching:max_split_size_mb=128,garbage_collection_threshold=0.8")
    wide, narrow = (render(loop_trace, [long], width) for width in (300, 60))
    assert long.allocator in narrow
    row = next(line for line in wide.splitlines() if line.startswith(long.allocator)).split()
    assert set(next(line for line in narrow.splitlines() if line.startswith(long.allocator)).split()) <= set(row)
