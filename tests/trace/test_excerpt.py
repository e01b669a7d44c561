"""Shorter traces, and the verb that makes them."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gmlake.commands import convert as verb
from gmlake.errors import UserError
from gmlake.trace import Kind, TraceError, bundled_names, read_trace, validate, write_trace
from gmlake.trace.convert import parse_iterations
from gmlake.trace.excerpt import keep_iterations
from gmlake.trace.trace import CallSites, Frame


def peaks(name: str, numbers: list[int] | None = None) -> list[int]:
    trace = read_trace(name)
    if numbers is not None:
        trace = keep_iterations(trace, numbers)
        validate(trace)
    live = trace.live_bytes()
    bounds = [*trace.marks.tolist()[: trace.iterations], len(trace)]
    return [int(live[start:end].max()) for start, end in pairwise(bounds)]


@pytest.mark.parametrize("name", ["demo", "fsdp"])
def test_the_kept_iterations_peak_as_before(name: str) -> None:
    kept = [0, 1, 2, 5, 8]
    whole, part = peaks(name), peaks(name, kept)
    assert len(part) == len(kept)
    for number, peak in zip(kept, part, strict=True):
        # What lives from one iteration into the next has the size of another iteration now.
        assert abs(peak - whole[number]) <= 0.01 * whole[number]


def test_nothing_leaks_by_leaving_iterations_out() -> None:
    whole, part = read_trace("demo"), keep_iterations(read_trace("demo"), [0, 1, 2, 9])
    assert abs(int(part.live_bytes()[-1]) - int(whole.live_bytes()[-1])) < 16 << 20
    assert (part.kind == Kind.RECORD_STREAM).sum() > 0


def test_all_iterations_are_the_whole_trace() -> None:
    trace = read_trace("fsdp")
    again = keep_iterations(trace, range(trace.iterations))
    np.testing.assert_array_equal(trace.id, again.id)
    np.testing.assert_array_equal(trace.kind, again.kind)


@pytest.mark.parametrize("numbers", [[], [99], [-1], [2, 1], [1, 1]])
def test_iterations_that_are_not_there(numbers: list[int]) -> None:
    with pytest.raises(TraceError, match="iteration"):
        keep_iterations(read_trace("fsdp"), numbers)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0-900000", "iterations 0 to 900000 were asked for, but the trace has 42, from 0 to 41"),
        ("42", "iteration 42 was asked for, but the trace has 42, from 0 to 41"),
        ("5-2", "iterations '5-2' end before they begin, expected such as 2-5"),
        ("1,0", "iteration 0 comes after 1: iterations are kept in their order, each once"),
    ],
)
def test_what_was_asked_for_and_what_there_is(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        run("demo", "-o", str(tmp_path / "short.gmt"), "--iterations", text)
    assert str(caught.value).removeprefix("demo: ") == complaint


def test_iterations_of_a_trace_without_any() -> None:
    with pytest.raises(TraceError, match="but the trace has none"):
        keep_iterations(read_trace("snapshot"), [0])


def test_iterations_that_do_not_fit_together() -> None:
    advice = "iteration 2 refers to what iteration 1 allocated, .*: keep all before it as well, as in --iterations 0-3"
    with pytest.raises(TraceError, match=advice):
        keep_iterations(read_trace("fixed"), [2, 3])
    assert keep_iterations(read_trace("fixed"), [0, 1, 2, 3]).iterations == 4


def test_lists_of_iterations() -> None:
    assert parse_iterations("0-3, 7") == [0, 1, 2, 3, 7]
    for text in ("", "a", "1-", "-1", "1-2-3", "0-99999999999", "9" * 5000, "1.5"):
        with pytest.raises(TraceError, match="iterations"):
            parse_iterations(text)


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args(arguments))


def test_convert_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "short.pickle"
    assert run("fixed", "-o", str(output), "--iterations", "0-1") == 0
    said = capsys.readouterr().out
    assert "2 iterations" in said
    assert "record_stream events" in said
    assert f"gmlake replay {output}" in said
    with pytest.raises(UserError, match="overwrite it with -f"):
        run("fixed", "-o", str(output))
    assert run("fixed", "-o", str(output), "--iterations", "0", "-f") == 0
    capsys.readouterr()
    assert run(str(output), "-o", str(tmp_path / "back.gmt"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "gmlake"
    assert told["bytes"] == (tmp_path / "back.gmt").stat().st_size
    assert told["iterations"] == 1


def test_convert_says_that_call_sites_and_times_are_lost(tmp_path: Path) -> None:
    sites = CallSites(frames=(Frame("train.py", 1, "step"),), stacks=((0,),))
    plain = read_trace("fixed")
    known = replace(plain, site=np.zeros(len(plain), np.int32), call_sites=sites, time_us=np.arange(len(plain)))
    for name, lost in (("t.gmt", []), ("t.npz", ["call sites", "times"])):
        assert write_trace(known, tmp_path / name) == lost
    assert write_trace(plain, tmp_path / "plain.npz") == []


def test_convert_checks_the_output_before_it_reads(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no format has the suffix"):
        run("no-such-trace", "-o", str(tmp_path / "x.unknown"))


def test_bundled_traces_are_small_and_valid() -> None:
    names = bundled_names()
    assert {"demo", "fixed", "fsdp", "offload", "snapshot"} <= set(names)
    folder = Path(verb.__file__).parent.parent / "traces"
    listed = (folder / "README.md").read_text()
    for name in names:
        trace = read_trace(name)
        validate(trace)
        assert (folder / f"{name}.gmt").stat().st_size < 300_000
        line = next(line for line in listed.splitlines() if line.startswith(f"| `{name}` |"))
        events = f"{len(trace):,}".replace(",", " ")
        assert f"| {events} | {trace.iterations or 'none recorded'} |" in line
