"""What all verbs share."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gmlake import __version__
from gmlake.commands import COMMANDS

from .conftest import Cli, assert_refused


def test_no_verb_shows_the_verbs(cli: Cli) -> None:
    done = cli()
    assert done.returncode == 2
    for command in COMMANDS:
        assert command.NAME in done.stderr


def test_version(cli: Cli) -> None:
    done = cli("--version")
    assert (done.returncode, done.stdout) == (0, f"gmlake {__version__}\n")


def test_unknown_verb(cli: Cli) -> None:
    assert_refused(cli("replya"), "replya")


@pytest.mark.parametrize(
    ("arguments", "helpful"),
    [
        ("replay x --capcity 3GiB", "gmlake replay"),
        ("run --recrod x -- y", "gmlake run"),
        ("workloads run paper --josn", "gmlake workloads run"),
        ("--josn replay x", "gmlake"),
    ],
)
def test_an_unknown_option_names_the_help_that_lists_the_known_ones(cli: Cli, arguments: str, helpful: str) -> None:
    done = cli(*arguments.split())
    assert_refused(done, "unrecognized arguments: --")
    assert done.stderr.endswith(f"; see '{helpful} --help'\n")


def test_every_verb_explains_itself(cli: Cli) -> None:
    for command in COMMANDS:
        done = cli(command.NAME, "--help")
        assert done.returncode == 0
        assert f"\n  gmlake {command.NAME} " in done.stdout  # an example


def options_into(where: str, folder: Path) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f"{shlex.quote(sys.executable)} -m gmlake options --json {where}"]
    return subprocess.run(shell, cwd=folder, capture_output=True, text=True)


def test_streams_that_are_closed_are_not_written_to(tmp_path: Path) -> None:
    done = options_into(">&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = options_into(">/dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (1, "gmlake: error: No space left on device\n")


def test_names_that_no_file_can_have(cli: Cli, npz: Path) -> None:
    name = f"{'x' * 300}.gmt"
    for command in ("replay", "convert -o out.gmt", "report -o out.html"):
        assert_refused(cli(*command.split(), name), f"{name}: cannot be read: File name too long")
    assert_refused(cli("convert", npz, "-o", name), f"{name} cannot be written: File name too long")


def test_letters_that_the_terminal_lacks_do_not_end_it(cli: Cli, npz: Path) -> None:
    odd = npz.rename(npz.with_name("größe-✓.npz"))
    done = cli("replay", odd.name, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "gr" in done.stdout


def test_what_steers_a_terminal_is_not_passed_on(cli: Cli) -> None:
    for arguments in (("replay", "a\nb\033[31m"), ("replay", "demo", "--color\033[31m")):
        done = cli(*arguments)
        assert_refused(done, "�[31m")
        assert "\033" not in done.stderr


def test_what_takes_long_is_imported_where_an_interrupt_is_heeded() -> None:
    slow = "importlib.metadata", "numpy", "rich", "gmlake._core"
    program = f"import sys, gmlake; print([name for name in {slow} if name in sys.modules], gmlake.__version__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"[] {__version__}\n"
