"""Commands that are suggested can be pasted into a shell, whatever the files are called."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulator.running import Emulated

from .conftest import Cli

ODD = "my [red] :dog: 'run'"
PROGRAM = "import torch; torch.empty(3 << 20, device='cuda')"


def assert_works(cli: Cli, done: subprocess.CompletedProcess[str], beginning: str, *words: str) -> None:
    """The last line suggests a command with these words in it; it is run."""
    assert done.returncode == 0, done.stderr
    line = (done.stdout or done.stderr).splitlines()[-1]
    assert line.startswith(beginning)
    gmlake, *arguments = shlex.split(line.removeprefix(beginning))
    assert gmlake == "gmlake"
    assert set(words) <= set(arguments)
    again = cli(*arguments)
    assert again.returncode == 0, again.stderr


def test_after_convert(cli: Cli, npz: Path) -> None:
    done = cli("convert", npz, "-o", f"{ODD}.gmt")
    assert f"{ODD}.gmt: 71 events, 29 allocations, 14 iterations, " in done.stdout
    assert "demo.gmt: 717,238 events, " in cli("convert", "demo", "-o", "demo.gmt").stdout
    assert_works(cli, done, "look at it: ", "replay", f"{ODD}.gmt")
    done = cli("convert", npz, "-o", f"{ODD}.pickle")
    assert_works(cli, done, f"look at it: open {ODD}.pickle at https://pytorch.org/memory_viz, or ", f"{ODD}.pickle")
    for unknown_to_the_viewer in (f"{ODD}.json", f"{ODD}.pickle.gz"):
        done = cli("convert", npz, "-o", unknown_to_the_viewer)
        assert_works(cli, done, "look at it: ", unknown_to_the_viewer)


def test_after_replay(cli: Cli, npz: Path, tmp_path: Path) -> None:
    npz.rename(tmp_path / f"{ODD}.npz")
    replay = ["replay", f"{ODD}.npz", "--allocator", "caching"]
    done = cli(*replay, "--timeline", f"{ODD}.csv")
    assert f"Timeline written to {ODD}.csv." in done.stdout.splitlines()
    assert_works(cli, done, "Next: ", f"{ODD}.npz", "--smallest-capacity")
    for name in ("timeline.csv", "timeline-2.csv"):  # the first is there by then
        assert_works(cli, cli(*replay, "--smallest-capacity"), "Next: ", f"{ODD}.npz", "--timeline", name)


def test_after_replay_nothing_that_was_asked_is_left_out(cli: Cli, npz: Path, tmp_path: Path) -> None:
    names = [str(shutil.copy(npz, tmp_path / f"{number}.npz")) for number in range(4)]
    npz.rename(tmp_path / "-x.npz")
    asked = ["--device", "0", "--allocator", "caching", "--capacity", "1GiB", "--", *names, "-x.npz"]
    assert_works(cli, cli("replay", *asked), "Next: ", "--smallest-capacity", *asked)
    assert_works(cli, cli("replay", "--smallest-capacity", *asked), "Next: ", "--timeline", *asked)


def test_after_plot(cli: Cli, npz: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    npz.rename(tmp_path / "-x.npz")
    asked = ["--device", "0", "--allocator", "caching", "--capacity", "1GiB"]
    done = cli("plot", "-o", "picture.svg", "--cost-table", "free", *asked, "--", "-x.npz", "demo", "demo", "demo")
    assert_works(cli, done, "Next: ", "./-x.npz", "demo", "--cost-table", "free", *asked)
    assert done.stdout.count("demo") == 3
    again = cli("plot", "-o", "again.svg", "--kind", "needs", "--", "-x.npz")
    assert_works(cli, again, "Next: ", "./-x.npz", "report-2.html")


def test_a_name_that_looks_like_an_option(cli: Cli, npz: Path) -> None:
    assert_works(cli, cli("convert", npz, "--output=-x.gmt"), "look at it: ", "replay", "./-x.gmt")


def test_of_several_devices_the_one_that_was_taken_is_named(cli: Cli, tmp_path: Path) -> None:
    event = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0}
    snapshot = {"segments": [], "device_traces": [[event], [event, event | {"addr": 8192}], [], [event]]}
    (tmp_path / "four.json").write_text(json.dumps(snapshot))
    said = "gmlake: four: device 1 is taken, the one with most events; --device takes another (0, 3)\n"
    for command in ("replay", "convert -o one.gmt", "report -o one.html"):
        done = cli(*command.split(), "four.json")
        assert (done.returncode, done.stderr) == (0, said)
        assert cli(*command.split(), "four.json", "--device", "3", "-f").stderr == ""


def test_after_run(cli: Cli) -> None:
    Emulated()
    done = cli("run", "--emulate", "a100-80g", "--record", f"{ODD}.gmt", "--", "python", "-c", PROGRAM)
    assert_works(cli, done, "Next: ", "replay", f"{ODD}.gmt")


def test_after_compare(cli: Cli) -> None:
    """The page is there by then."""
    Emulated()
    arguments = [
        "--emulate",
        "a100-80g",
        "--allocator",
        "torch",
        "--html",
        f"{ODD}.html",
        "--",
        "python",
        "-c",
        PROGRAM,
    ]
    assert_works(cli, cli("compare", *arguments), "Next: ", "--smallest-memory", f"{ODD}.html")
