"""`gmlake run --emulate` as tests use it. Without a CUDA build of PyTorch these tests are skipped, and the run's last
lines say so; where REQUIRE_TORCH is set, as in CI, that is a failure.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gmlake.emulator.standins import find_torch

MISSING = "no CUDA build of PyTorch is installed here: pip install --no-deps -r requirements/emulated.txt"


def require(package: str) -> None:
    """Skip, or fail where it must not be missing, what needs one of the packages in requirements/."""
    if importlib.util.find_spec(package) is None:
        missing = f"{package} is not installed here: see requirements/"
        if os.environ.get("REQUIRE_TORCH"):
            pytest.fail(missing)
        pytest.skip(missing)


@dataclass
class Done:
    """A run that is over."""

    status: int
    stdout: str
    stderr: str
    report: dict[str, Any]  # of --json; empty where there is none

    @property
    def device(self) -> dict[str, Any]:
        """The only process's only device."""
        [process] = self.report["processes"]
        [device] = process["devices"]
        assert isinstance(device, dict)
        return device


class Emulated:
    """Callable: `emulated("print(1)", "--gpus", "2")` runs a program; a Path is the program's file."""

    def __init__(self) -> None:
        """Skip whatever needs PyTorch if it is not here."""
        folder = find_torch()
        if folder is None or not (folder / "libtorch_cuda.so").is_file():
            if os.environ.get("REQUIRE_TORCH"):
                pytest.fail(MISSING)
            pytest.skip(MISSING)

    def __call__(
        self,
        program: str | Path,
        *options: object,
        arguments: tuple[object, ...] = (),
        device: str = "a100-80g",
        env: dict[str, str] | None = None,
        json_report: bool = True,
        timeout: float = 300,
    ) -> Done:
        """Run the program; the report is asked for as a file, so that both streams are the program's own."""
        command = ["python", str(program)] if isinstance(program, Path) else ["python", "-c", program]
        return self.command(
            [*command, *arguments], *options, device=device, env=env, json_report=json_report, timeout=timeout
        )

    def command(
        self,
        command: list[object],
        *options: object,
        device: str = "a100-80g",
        env: dict[str, str] | None = None,
        json_report: bool = True,
        timeout: float = 300,
    ) -> Done:
        """Run a command."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GMLAKE", "PYTORCH"))}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            report = ["--json", path] if json_report else []
            ours = [sys.executable, "-m", "gmlake", "run", "--emulate", device, *report, *options, "--"]
            done = subprocess.run(
                [str(word) for word in (*ours, *command)],
                env=clean | (env or {}),
                capture_output=True,
                text=True,
                timeout=timeout,
            )
            found = json.loads(path.read_text()) if path.exists() else {}
        return Done(done.returncode, done.stdout, done.stderr, found)
