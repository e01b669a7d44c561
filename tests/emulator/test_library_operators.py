"""PyTorch's operators on the libraries' stand-ins, in one process: each must run, and nothing may be missing.

Values are not looked at, they are nobody's: this is about shapes, descriptors and the order of calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmlake import _core
from gmlake.emulator.standins import find_torch, stand_ins

PROGRAM = Path(__file__).with_name("library_operators.py")
NAMES = [line.split('"')[1] for line in PROGRAM.read_text().splitlines() if line.startswith('run("')]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    """What became of each operator ("" if all is well), and what the device said."""
    device = Path(_core.__file__).with_name("libgmlake_device.so")
    torch_lib = find_torch()
    if torch_lib is None or not (torch_lib / "libtorch_cuda.so").is_file():
        pytest.skip("no CUDA build of PyTorch is installed here")
    if not device.is_file():
        pytest.skip(f"{device.name} is not built")
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{device}:{stand_ins(torch_lib)}",
        "GMLAKE_DEVICE": "capability=9.0",
        # What is compiled for the emulated device must not be found by a real one.
        "USE_PYTORCH_KERNEL_CACHE": "0",
    }
    answer = tmp_path_factory.mktemp("operators") / "answer.json"
    command = [sys.executable, str(PROGRAM), str(answer)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(answer.read_text()), result.stderr


@pytest.mark.parametrize("name", NAMES)
def test_runs(outcome: tuple[dict[str, str], str], name: str) -> None:
    assert outcome[0][name] == ""


def test_nothing_is_missing(outcome: tuple[dict[str, str], str]) -> None:
    assert "is not emulated" not in outcome[1]
