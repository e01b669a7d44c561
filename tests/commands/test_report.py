"""gmlake report, as a user runs it. What the page shows is tested in tests/report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmlake import report
from gmlake.errors import UserError
from gmlake.trace import read_trace

from .conftest import Cli, assert_refused


def test_writes_a_page_and_says_what_it_comes_down_to(cli: Cli, npz: Path, tmp_path: Path) -> None:
    done = cli("report", npz, "-o", "report.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "loop: gmlake needs" in done.stdout
    assert "report.html" in done.stdout


def test_from_python(tmp_path: Path) -> None:
    """A process of its own, which has imported nothing else."""
    page = tmp_path / "report.html"
    program = f"import gmlake; gmlake.report.write('snapshot', {str(page)!r}, allocators=['caching'])"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert page.is_file()
    with pytest.raises(UserError, match=r"exists already: choose another name, or pass force=True"):
        report.write("snapshot", page)
    assert [subject.name for subject in report.write(read_trace("snapshot"), page, force=True)] == ["snapshot"]


def test_json_has_the_results_of_replay(cli: Cli, npz: Path) -> None:
    chosen = ("--allocator", "gmlake", "--allocator", "caching", "--capacity", "1GiB")
    mine = json.loads(cli("report", npz, "-o", "report.html", "--json", *chosen).stdout)
    theirs = json.loads(cli("replay", npz, "--json", *chosen).stdout)
    for results in (mine["results"], theirs["results"]):
        for result in results:
            del result["cpu_seconds"]
    assert mine == {"report": "report.html", "results": theirs["results"]}


def test_results_that_were_saved_make_a_page(cli: Cli, npz: Path, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(cli("replay", npz, "--json", "--smallest-capacity").stdout)
    done = cli("report", "results.json", "-o", "report.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "report.html").stat().st_size > 50_000


@pytest.mark.parametrize("option", [("--allocator", "gmlake"), ("--capacity", "1GiB"), ("--cost-table", "free")])
@pytest.mark.parametrize("verb", [("report", "-o", "page.html"), ("plot", "--kind", "needs", "-o", "picture.png")])
def test_nothing_is_asked_of_a_replay_where_nothing_is_replayed(
    cli: Cli, npz: Path, tmp_path: Path, verb: tuple[str, ...], option: tuple[str, str]
) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text(cli("replay", npz, "--json").stdout)
    assert_refused(cli(verb[0], saved, *verb[1:], *option), f"{option[0]} has no effect on saved results")


def test_saved_results_of_traces_that_share_a_name_stay_apart(cli: Cli, npz: Path, tmp_path: Path) -> None:
    printed = (cli("replay", trace, "--json", "--capacity", "1GiB").stdout for trace in (npz, "snapshot"))
    loop, short = ([result | {"trace": "run"} for result in json.loads(text)["results"]] for text in printed)
    assert [result["out_of_memory"] is None for result in loop + short] == [True] * 4 + [False] * 4
    other = [result | {"peak_active": 7} for result in loop]
    mixed = [result for pair in zip(loop, other, strict=True) for result in pair]
    for results, subjects in ((loop, 1), (loop + short, 2), (loop + loop, 2), (mixed, 2), ([loop[0], other[1]], 2)):
        (tmp_path / "results.json").write_text(json.dumps({"results": results}))
        done = cli("report", "results.json", "-o", "report.html", "-f")
        names = [line.partition(": ")[0] for line in done.stdout.splitlines()[:-1]]
        assert (done.returncode, names) == (0, ["run"] if subjects == 1 else ["run, 1", "run, 2"])


def test_saved_results_that_share_a_name_say_which_file_they_are_from(cli: Cli, npz: Path, tmp_path: Path) -> None:
    saved = cli("replay", npz, "--json", "--allocator", "caching").stdout
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "results.json").write_text(saved)
    done = cli("report", npz, "a/results.json", "b/results.json", "-o", "report.html", "--allocator", "caching")
    names = [line.partition(": ")[0] for line in done.stdout.splitlines()[:-1]]
    assert (done.returncode, names) == (0, ["loop", "loop (a/results)", "loop (b/results)"]), done.stderr


def test_several_inputs_make_one_page(cli: Cli, npz: Path) -> None:
    done = cli("report", npz, "snapshot", "-o", "report.html", "--allocator", "native")
    assert done.returncode == 0
    assert "loop: native needs" in done.stdout
    assert "snapshot: native needs" in done.stdout


@pytest.mark.parametrize(
    "verb", [("report", "-o", "out.html"), ("plot", "-o", "out.svg"), ("replay", "--timeline", "out.csv")]
)
def test_names_that_are_not_utf_8(cli: Cli, npz: Path, tmp_path: Path, verb: tuple[str, ...]) -> None:
    """Such a name is written with a replacement character, and printed as it is."""
    name = os.fsdecode(b"bad\xff")
    npz.rename(tmp_path / f"{name}.npz")
    title = () if verb[0] == "replay" else ("--title", f"{name} title")
    done = cli(*verb, f"{name}.npz", *title)
    assert (done.returncode, done.stderr) == (0, "")
    text = next(tmp_path.glob("out.*")).read_text(encoding="utf-8")
    assert "bad\ufffd" in text
    assert not title or "bad\ufffd title" in text


def test_results_that_were_saved_may_bear_such_names(cli: Cli, npz: Path, tmp_path: Path) -> None:
    saved = cli("replay", npz, "--json").stdout.replace('"loop"', r'"bad\ud800"')
    (tmp_path / os.fsdecode(b"\xff.json")).write_text(saved)
    done = cli("report", os.fsdecode(b"\xff.json"), "-o", os.fsdecode(b"\xff.html"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "bad\ufffd: gmlake needs" in done.stdout
    assert b"bad\xef\xbf\xbd" in (tmp_path / os.fsdecode(b"\xff.html")).read_bytes()


def test_nothing_is_overwritten_unless_asked(cli: Cli, npz: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    assert_refused(cli("report", npz, "-o", "report.html"), "overwrite it with -f")
    assert (tmp_path / "report.html").read_text() == "mine"
    assert cli("report", npz, "-o", "report.html", "-f").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("loop.npz",), "-o/--output"),
        (("loop.npz", "-o", "report.pdf"), "should end in .html"),
        (("loop.npz", "-o", "nowhere/report.html"), "there is no folder nowhere"),
        (("missing.pickle", "-o", "report.html"), "no such file, nor is it a bundled trace"),
        (("loop.npz", "-o", "report.html", "--allocator", "cashing"), "cashing"),
        (("loop.npz", "-o", "report.html", "--capacity", "0"), "above zero"),
        (("loop.npz", "-o", "report.html", "--jobs", "0"), "1 or more"),
    ],
)
def test_mistakes_are_told_in_one_sentence(cli: Cli, npz: Path, arguments: tuple[str, ...], complaint: str) -> None:
    assert npz.name == "loop.npz"
    assert_refused(cli("report", *arguments), complaint)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"results": []}', "holds no results"),
        ('{"results": 7}', "holds no results"),
        ('{"results": [{"trace": "x"}]}', "'allocator' of a result is missing or impossible"),
        ('{"results": [17]}', "a result is not an object"),
        ('{"results": [', "is no intact JSON"),
        ('{"status": 0}', "holds no processes"),
        ('{"emulated": null}', "holds no processes"),
        ('{"emulated": null, "runs": 7}', "holds no processes"),
        ('{"emulated": null, "runs": [7]}', "holds no processes"),
        ('{"status": 0, "processes": [{"pid": "x"}]}', "holds no processes"),
        ('{"status": 0, "processes": [{"pid": 1, "devices": [{"device": "<b>"}]}]}', "holds no processes"),
        ('{"status": 0, "processes": [{"pid": 1, "rank": NaN}]}', "holds no processes"),
    ],
)
def test_broken_results_are_told_in_one_sentence(cli: Cli, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "results.json").write_text(text)
    assert_refused(cli("report", "results.json", "-o", "report.html"), complaint)
    assert not (tmp_path / "report.html").exists()


def test_results_below_zero_are_refused(cli: Cli, npz: Path, tmp_path: Path) -> None:
    found = json.loads(cli("replay", npz, "--allocator", "gmlake", "--json").stdout)
    found["results"][0]["peak_reserved"] = -5
    (tmp_path / "results.json").write_text(json.dumps(found))
    assert_refused(
        cli("report", "results.json", "-o", "report.html"), "'peak_reserved' of a result is missing or impossible"
    )
