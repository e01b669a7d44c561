"""gmlake workloads, as a user runs it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gmlake.workloads.catalogue import workloads
from gmlake.workloads.document import BEGIN, END
from gmlake.workloads.results import FILE

from .conftest import Cli, assert_refused, heed_interrupts
from .test_replay import KEYS_BESIDES, KEYS_OF_THE_CONTRACT

TINY = "tiny/fsdp2/LR/2gpu/b8/var"


def test_list_shows_a_suite_and_what_comes_next(cli: Cli) -> None:
    done = cli("workloads", "list", "quick")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split()[0] for line in done.stdout.splitlines() if "/" in line.split(" ")[0]]
    assert rows == [name for name, workload in workloads().items() if "quick" in workload.suites]
    assert f"{len(rows)} of {len(workloads())} workloads; suites: beyond (" in done.stdout
    assert f"Next: gmlake workloads show {rows[0]}" in done.stdout


def test_list_as_json_is_the_whole_catalogue(cli: Cli) -> None:
    found = json.loads(cli("workloads", "list", "--json").stdout)["workloads"]
    assert [workload["id"] for workload in found] == list(workloads())


def test_show_says_all_about_one(cli: Cli) -> None:
    done = cli("workloads", "show", TINY)
    assert done.returncode == 0
    for text in ("PyTorch FSDP2", "LoRA, recomputation", "rank 0 of 2", "var: 317 435 212", "Next: gmlake replay "):
        assert text in done.stdout
    found = json.loads(cli("workloads", "show", TINY, "--json").stdout)
    assert found["model"]["numbers"]["hidden_size"] == 256
    assert len(found["shape_list"]) == found["iterations"]


def test_run_prints_the_tables_and_keeps_the_results(cli: Cli, tmp_path: Path) -> None:
    first = cli("workloads", "run", "tiny", "--state", "state")
    assert (first.returncode, first.stderr) == (0, "")
    for text in ("Beyond the paper", "Smallest capacity", "Driver calls", "On 4 workloads GMLake reserves"):
        assert text in first.stdout
    assert "Peak reserved memory in GiB" in first.stdout
    assert "16 of 16 replays" in first.stdout and "were kept" not in first.stdout
    again = cli("workloads", "run", "tiny", "--state", "state")
    assert "0 of 16 replays" in again.stdout and ", the others were kept." in again.stdout
    tables = [done.stdout.partition("replays in")[0].rpartition("\n")[0] for done in (first, again)]
    assert tables[0] == tables[1]


def test_run_as_json_has_the_objects_of_replay(cli: Cli) -> None:
    found = json.loads(cli("workloads", "run", TINY, "--state", "state", "--no-smallest-capacity", "--json").stdout)
    assert set(found) == {"results", "summary"}
    assert [result["allocator"] for result in found["results"]] == ["gmlake", "expandable", "caching", "paper"]
    for result in found["results"]:
        assert set(result) == KEYS_OF_THE_CONTRACT | KEYS_BESIDES
        assert result["trace"] == TINY
    caching, ours = (next(r for r in found["results"] if r["allocator"] == name) for name in ("caching", "gmlake"))
    saved = (caching["peak_reserved"] - ours["peak_reserved"]) / 2**30
    assert found["summary"]["average_saved"] == pytest.approx(saved)


def test_run_writes_the_tables_into_a_page(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Mine\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    arguments = ("workloads", "run", TINY, "--state", "state", "--no-smallest-capacity", "--markdown", page)
    assert cli(*arguments).returncode == 0
    text = page.read_text()
    assert text.startswith("# Mine\n\n")
    assert text.endswith("\n\nafter\n")
    assert "old" not in text
    assert f"| {TINY} | " in text
    cli(*arguments)
    assert page.read_text() == text


@pytest.mark.parametrize("signal_sent", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_goes_on_where_it_was(tmp_path: Path, cli: Cli, signal_sent: signal.Signals) -> None:
    names = ["tiny", "opt-1.3b/fsdp2"]
    child = subprocess.Popen(
        [sys.executable, "-m", "gmlake", "workloads", "run", *names, "--state", "state", "--jobs", "1", "--json"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
        text=True,
    )
    kept = tmp_path / "state" / FILE
    deadline = time.monotonic() + 60
    while not (kept.exists() and kept.read_text().count("\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(child.pid, signal_sent)
    _, errors = child.communicate(timeout=60)
    if signal_sent == signal.SIGINT:
        assert (child.returncode, errors) == (130, "gmlake: interrupted\n")
    finished = kept.read_text().count("\n")
    assert 3 <= finished < 24
    done = cli("workloads", "run", *names, "--state", "state")
    assert f"{24 - finished} of 24 replays" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["workloads"], "say what to do with workloads: list, show, record or run"),
        (["workloads", "show", "tiny"], "'tiny' means 4 workloads; see them with: gmlake workloads list tiny"),
        (["workloads", "run", "papper"], "there is no workload, family or suite 'papper'; did you mean paper"),
        (["workloads", "run", "tiny", "--allocator", "cachin"], "cachin"),
        (["workloads", "run", "tiny", "--jobs", "0"], "--jobs needs a number of 1 or more, not 0"),
        (["workloads", "run", "tiny", "--markdown", "no.md"], "no.md cannot be read: No such file or directory"),
        (["workloads", "run", "tiny", "--state", "/dev/null/x"], "results cannot be kept in /dev/null/x"),
        (["workloads", "run", "tiny", "--traces", "no"], "--traces needs a folder, and no is not there"),
        (["workloads", "run", "tiny", "--traces", "/dev/null"], "--traces needs a folder, and /dev/null is a file"),
        (["workloads", "record", "tinny"], "did you mean tiny"),
    ],
)
def test_bad_input_is_one_sentence(cli: Cli, arguments: list[str], complaint: str) -> None:
    assert_refused(cli(*arguments), complaint)


def test_a_page_without_a_place_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, complaint in (("mine", "has no place for results; put the lines"), ("\xe9", "it is no UTF-8 text")):
        page.write_text(text, encoding="latin-1")
        assert_refused(cli("workloads", "run", "tiny", "--markdown", page), complaint)
        assert page.read_text(encoding="latin-1") == text


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    def run(room: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gmlake", "workloads", "run", TINY, "--state", "state", "--jobs", "1", "--json"],
            cwd=tmp_path,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert_refused(run(5000), "results.jsonl cannot be written: File too large; what was finished is kept, make room")
    assert run(1 << 20).returncode == 0
    before = (tmp_path / "state" / FILE).read_text()
    assert run(1 << 20).returncode == 0
    assert (tmp_path / "state" / FILE).read_text() == before  # all four are found again


def test_recording_without_its_packages_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    """An interpreter that sees gmlake and nothing else, as after a plain `pip install gmlake`."""
    program = (
        "import sys, importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name in ('peft', 'deepspeed') else find(name, *rest); "
        "from gmlake.__main__ import main; sys.exit(main(['workloads', 'record', 'tiny']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert_refused(done, "recording runs real training code and needs peft, deepspeed; install what requirements/")
