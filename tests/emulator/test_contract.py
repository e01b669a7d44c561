"""The driver's contract, and the allocator behind its C ABI, on the emulated libcuda.so.1: no PyTorch is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmlake.emulator.launch import native_library
from gmlake.emulator.standins import stand_ins

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tests", ["tests/contract", "tests/edge"])
def test_on_the_emulated_driver(tests: str) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")}
    device = {
        "LD_PRELOAD": f"{native_library()}:{stand_ins(None)}",
        "GMLAKE_DEVICE": f"memory={4 << 30};count=2",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # One test gives GMLAKE_DEVICE a value that makes no sense, which ends a process that is emulated.
    chosen = ["-p", "no:cacheprovider", "-k", "not switches_in_the_environment"]
    command = [sys.executable, "-m", "pytest", *chosen, tests]
    done = subprocess.run(command, cwd=ROOT, env=clean | device, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    # What is skipped is only what a machine with a device cannot show.
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in skipped if "this machine has a CUDA device" not in line] == []
