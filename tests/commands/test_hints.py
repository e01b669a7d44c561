"""Commands that are suggested can be pasted into a shell, whatever the files are called."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

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
    assert_works(cli, cli(*replay, "--smallest-capacity"), "Next: ", f"{ODD}.npz", "--timeline")


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
