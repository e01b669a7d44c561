"""gmlake replay, as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gmlake import _core

from .conftest import MIB, NO_WIDTH, Cli, assert_refused, heed_interrupts

KEYS_OF_THE_CONTRACT = {
    "trace",
    "allocator",
    "events",
    "iterations",
    "peak_requested",
    "peak_active",
    "peak_reserved",
    "utilisation",
    "smallest_capacity",
    "retries",
    "out_of_memory",
    "driver_calls",
    "warm_driver_calls",
    "warm_driver_ms",
    "cpu_seconds",
}
KEYS_BESIDES = {
    "out_of_memory_message",
    "fragmentation",
    "capacity",
    "driver_ms",
    "ordering_calls",
    "ordering_ms",
    "warm_ordering_calls",
    "warm_ordering_ms",
    "iteration_driver_calls",
    "iteration_driver_ms",
    "at_smallest_capacity",
}


def test_json_has_exactly_the_promised_keys(cli: Cli, npz: Path) -> None:
    done = cli("replay", npz, "--json", "--allocator", "caching", "--allocator", "native")
    assert (done.returncode, done.stderr) == (0, "")
    output = json.loads(done.stdout)
    assert set(output) == {"results"}
    assert [result["allocator"] for result in output["results"]] == ["caching", "native"]
    for result in output["results"]:
        assert set(result) == KEYS_OF_THE_CONTRACT | KEYS_BESIDES
    caching = output["results"][0]
    assert caching["iterations"] == 14
    assert caching["peak_active"] == 49 * MIB
    assert caching["peak_reserved"] == 60 * MIB  # 5 and 4 MiB in a segment of 20, and one of 40
    assert caching["smallest_capacity"] is None
    assert caching["warm_driver_calls"] == 0


def test_the_default_compares_four_allocators(cli: Cli, npz: Path) -> None:
    done = cli("replay", npz)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert [name for name in rows if name in ("gmlake", "expandable", "caching", "paper")][:4] == [
        "gmlake",
        "expandable",
        "caching",
        "paper",
    ]
    assert "gmlake needs" in done.stdout
    assert "modelled" in done.stdout
    assert "Next: gmlake replay" in done.stdout


def test_all_means_the_whole_catalogue(cli: Cli, npz: Path) -> None:
    results = json.loads(cli("replay", npz, "--allocator", "all", "--json").stdout)["results"]
    catalogue = json.loads(cli("options", "--json").stdout)["options"]
    assert {option["allocator"] for option in catalogue} <= {result["allocator"] for result in results}
    assert len(results) >= 6


def test_capacity_and_out_of_memory(cli: Cli, npz: Path) -> None:
    done = cli("replay", npz, "--allocator", "caching", "--capacity", "50MiB", "--json")
    result = json.loads(done.stdout)["results"][0]
    assert done.returncode == 0
    assert result["out_of_memory"] == 3  # the first 40 MiB
    assert result["capacity"] == 50 * MIB
    assert result["warm_driver_calls"] is None
    assert "out of mem." in cli("replay", npz, "--allocator", "caching", "--capacity", "50MiB").stdout


def test_where_memory_runs_out_nothing_is_best(cli: Cli, npz: Path) -> None:
    done = cli("replay", npz, "--capacity", "4MiB", "--allocator", "gmlake", "--allocator", "caching")
    ours = next(line.split() for line in done.stdout.splitlines() if line.startswith("gmlake "))
    assert "CPU" not in done.stdout  # what was spent on a part of the trace compares with nothing
    assert len(ours) < 6
    assert "None of them completes." in done.stdout


def test_a_pipe_gets_every_column(cli: Cli, npz: Path) -> None:
    done = cli("replay", npz, "--capacity", "50MiB", "--smallest-capacity", env=NO_WIDTH)
    for head in ("frag.", "active /", "out of mem.", "driver ms", "in all", "CPU", "million"):
        assert head in done.stdout
    assert all(line == line.rstrip() or len(line) < 300 for line in done.stdout.splitlines())


def test_smallest_capacity(cli: Cli, npz: Path) -> None:
    done = cli("replay", npz, "--allocator", "caching", "--smallest-capacity", "--json")
    result = json.loads(done.stdout)["results"][0]
    assert result["smallest_capacity"] == 60 * MIB
    assert result["at_smallest_capacity"]["fails_above"] == []


def test_check_passes(cli: Cli, npz: Path) -> None:
    assert cli("replay", npz, "--check", "--allocator", "all").returncode == 0


def test_timeline_as_csv_and_json(cli: Cli, npz: Path, tmp_path: Path) -> None:
    done = cli("replay", npz, "--timeline", "t.csv", "--allocator", "caching")
    assert "t.csv" in done.stdout
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["trace", "allocator", "event", "allocated", "active", "reserved"]
    assert max(int(row["reserved"]) for row in rows) == 60 * MIB
    assert_refused(cli("replay", npz, "--timeline", "t.csv"), "t.csv exists already")
    assert cli("replay", npz, "--timeline", "t.csv", "-f", "--allocator", "caching").returncode == 0
    cli("replay", npz, "--timeline", "t.json", "--allocator", "caching")
    timeline = json.loads((tmp_path / "t.json").read_text())["timelines"][0]
    assert timeline["reserved"] == [int(row["reserved"]) for row in rows]


def test_a_timeline_that_cannot_be_written_is_named(cli: Cli, npz: Path, tmp_path: Path) -> None:
    (tmp_path / "full.csv").symlink_to("/dev/full")
    done = cli("replay", npz, "--timeline", "full.csv", "-f")
    assert_refused(done, "full.csv cannot be written: No space left on device")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--allocator", "cachign"], "cachign"),
        (["--allocator", "caching:max_split=3"], "max_split"),
        (["--allocator", "caching:max_split_size_mb=lots"], "lots"),
        (["--capacity", "eighty"], "'eighty' is not a size"),
        (["--capacity", "40"], "'40' is not a size; write a number with a unit, like 80GiB or 4096B"),
        (["--capacity", "99999999999GiB"], "'99999999999GiB' is too large for a size"),
        (["--capacity=-1GiB"], "-1GiB"),
        (["--capacity", "0"], "--capacity needs a size above zero"),
        (["--cost-table", "h900"], "h900"),
        (["--jobs", "0"], "--jobs needs a number of 1 or more, not 0"),
        (["--timeline", "t.xlsx"], "t.xlsx"),
        (["--timeline", "nowhere/t.csv"], "nowhere"),
        (["--device", "7", "--allocator", "caching"], "device 7"),
        (["--colour"], "--colour"),
    ],
)
def test_bad_arguments(cli: Cli, npz: Path, arguments: list[str], complaint: str) -> None:
    assert_refused(cli("replay", npz, *arguments), complaint)


def test_a_trace_that_does_not_exist(cli: Cli) -> None:
    assert_refused(cli("replay", "nothing.npz", "--allocator", "caching"), "nothing.npz")


def test_a_trace_that_frees_what_it_never_allocated(cli: Cli, tmp_path: Path) -> None:
    np.savez(
        tmp_path / "bad.npz",
        kind=np.array([1], np.uint8),
        id=np.array([4], np.uint32),
        size=np.array([0]),
        stream=np.array([0], np.uint8),
    )
    assert_refused(cli("replay", "bad.npz", "--allocator", "caching"), "id 4")


def busy_trace(path: Path, live: int = 20_000, pairs: int = 50_000) -> None:
    """Many live blocks, so that every check takes its time, and then a run of allocations and frees."""
    steps = np.arange(2 * pairs)
    ids = np.concatenate([np.arange(live), live + steps // 2])
    kind = np.concatenate([np.zeros(live), steps % 2])
    np.savez(
        path,
        kind=kind.astype(np.uint8),
        id=ids.astype(np.uint32),
        size=np.where(kind == 0, 1000 + ids % 977, 0).astype(np.int64),
        stream=np.zeros(len(ids), np.uint8),
    )


def replaying(pid: int) -> bool:
    """Whether a thread beside the main one has computed: imports and reading happen in the main thread alone."""
    used = 0
    for stat in Path(f"/proc/{pid}/task").glob("[0-9]*/stat"):
        if stat.parent.name != str(pid):
            fields = stat.read_text().rpartition(")")[2].split()
            used = max(used, int(fields[11]) + int(fields[12]))
    return used / os.sysconf("SC_CLK_TCK") >= 0.2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the replay under way")
@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupt_is_quiet(tmp_path: Path, times: int) -> None:
    busy_trace(tmp_path / "busy.npz")
    # Hundreds of replays one after the other: no machine is through before the interrupt.
    allocators = [f"--allocator=caching:max_split_size_mb={limit}" for limit in range(21, 521)]
    command = [sys.executable, "-m", "gmlake", "replay", "busy.npz", "--check", "--jobs=1", *allocators]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed_interrupts
    ) as process:
        try:
            while process.poll() is None and not replaying(process.pid):
                time.sleep(0.02)
            assert process.poll() is None, "the replay ended before it could be interrupted"
            for _ in range(times):
                process.send_signal(signal.SIGINT)
                time.sleep(0.005)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    ended = process.returncode, errors
    assert ended == (130, "gmlake: interrupted\n") or (times > 1 and ended[0] == -signal.SIGINT)
    assert errors in ("gmlake: interrupted\n", "")


def test_a_closed_pipe_is_quiet(npz: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "gmlake", "replay", str(npz), "--json", "--allocator", "caching"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_help_teaches(cli: Cli, root: Path) -> None:
    done = cli("replay", "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert "--smallest-capacity" in done.stdout
    page = (root / "docs" / "replay.md").read_text()
    for table in _core.cost_tables():
        assert table.name in done.stdout
        assert f"| `{table.name}` |" in page


def test_traces_of_the_same_name_are_told_apart(cli: Cli, npz: Path, tmp_path: Path) -> None:
    for rank in ("rank0", "rank1"):
        (tmp_path / rank).mkdir()
        shutil.copy(npz, tmp_path / rank)
    files = ["rank0/loop.npz", "rank1/loop.npz"]
    done = cli("replay", *files, "--allocator", "caching", "--timeline", "t.csv", "--json")
    assert [result["trace"] for result in json.loads(done.stdout)["results"]] == ["rank0/loop", "rank1/loop"]
    with (tmp_path / "t.csv").open() as file:
        assert {row["trace"] for row in csv.DictReader(file)} == {"rank0/loop", "rank1/loop"}
    table = cli("replay", *files, "--allocator", "caching").stdout
    assert "rank0/loop  " in table and "rank1/loop  " in table
