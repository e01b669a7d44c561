"""The command line as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
MIB = 2**20
NO_WIDTH = {"COLUMNS": ""}  # a pipe as it is


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `gmlake ARGUMENTS...` in an empty directory; `env` adds to the environment."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")}
        return subprocess.run(
            [sys.executable, "-m", "gmlake", *map(str, arguments)],
            cwd=tmp_path,
            env=clean | {"COLUMNS": "120"} | (env or {}),
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=120,
        )

    return run


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    """A trace file: fourteen iterations that each allocate 4 and 40 MiB and free them in the same order."""
    rows = [(0, 0, 5 * MIB, 0)]
    for iteration in range(14):
        first = 1 + 2 * iteration
        rows.append((2, iteration, 0, 0))
        rows += [(0, first, 4 * MIB, 0), (0, first + 1, 40 * MIB, 0), (1, first, 0, 0), (1, first + 1, 0, 0)]
    kind, ids, size, stream = np.array(rows).T
    path = tmp_path / "loop.npz"
    np.savez(
        path,
        kind=kind.astype(np.uint8),
        id=ids.astype(np.uint32),
        size=size.astype(np.int64),
        stream=stream.astype(np.uint8),
    )
    return path


def assert_refused(done: subprocess.CompletedProcess[str], complaint: str, status: int = 2) -> None:
    """One sentence on stderr, nothing on stdout, no traceback."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("gmlake: error: ")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def heed_interrupts() -> None:
    """A shell that starts the tests in the background lets them ignore interrupts, and so whatever they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
