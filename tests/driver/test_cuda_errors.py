"""What the cuda driver says about an installation that cannot work: one sentence, with the way out.

Each case is a small library that stands in for a broken libcuda.so.1, in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_libcuda.c")
HEALTHY = {"VERSION": 13000, "INIT": 0, "COUNT": 1, "VMM": 1}
ASK = """
from gmlake._core import CudaDriver
from gmlake.errors import Error
try:
    CudaDriver({device})
except Error as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""


def answer(libraries: Path, program: str) -> str:
    """What a Python program prints when libcuda.so.1 is looked for in this folder first."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return result.stdout.strip()


def build(folder: Path, wrong: dict[str, int]) -> None:
    """Compile the stand-in, wrong in these ways only."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler was found to build the stand-in with")
    macros = [f"-D{name}={value}" for name, value in (HEALTHY | wrong).items()]
    command = [compiler, "-shared", "-fPIC", "-w", *macros, str(SOURCE), "-o", str(folder / "libcuda.so.1")]
    subprocess.run(command, check=True, timeout=60)


@pytest.mark.parametrize(
    ("wrong", "device", "sentence"),
    [
        (
            {"VERSION": 11010},
            0,
            "DriverError: the NVIDIA driver supports CUDA 11.1; install one for",
        ),
        ({"WITHOUT_CAPTURE_MODE": 1}, 0, "has no function cuThreadExchangeStreamCaptureMode; install"),
        ({"INIT": 999}, 0, "did not start: a made-up reason (CUDA error 999); see what nvidia-smi says"),
        (
            {"INIT": 100},
            0,
            "DriverError: no CUDA device was found; see what nvidia-smi says",
        ),
        ({"COUNT": 2}, 2, "InvalidArgument: device 2 does not exist; expected 0 to 1"),
        ({}, -1, "InvalidArgument: device -1 does not exist; expected 0 to 0"),
        ({"VMM": 0}, 0, "DriverError: device 0 has no virtual memory management"),
        ({}, 0, "device 0: starting its context failed: a made-up reason (CUDA error 46)"),
    ],
)
def test_broken_installations(tmp_path: Path, wrong: dict[str, int], device: int, sentence: str) -> None:
    build(tmp_path, wrong)
    assert sentence in answer(tmp_path, ASK.format(device=device))


def test_no_device_is_a_count_of_zero(tmp_path: Path) -> None:
    build(tmp_path, {"INIT": 100})
    assert answer(tmp_path, "from gmlake._core import CudaDriver; print(CudaDriver.device_count())") == "0"


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    said = answer(tmp_path, ASK.format(device=0))
    assert "libcuda.so.1 was not found" in said
    assert "install the NVIDIA driver, or use the simulated driver" in said
