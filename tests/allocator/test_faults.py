"""A fault at every driver call of a thousand steps. The program is native, because it runs thousands of times."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gmlake import _core

NATIVE = Path(__file__).parent.parent / "native"
SOURCES = [NATIVE / name for name in ("faults.cpp", "script.cpp", "witness.cpp")]


@pytest.fixture
def faults(tmp_path: Path, root: Path) -> Path:
    """The program, built against the library that is installed."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler was found to build the program with")
    library = Path(_core.__file__ or "").parent
    program = tmp_path / "faults"
    options = ["-std=c++20", "-O1", f"-I{root / 'core'}", f"-L{library}", f"-Wl,-rpath,{library}"]
    subprocess.run([compiler, *options, *map(str, SOURCES), "-lgmlake", "-o", str(program)], check=True)
    return program


def test_no_fault_breaks_or_leaks_anything(faults: Path) -> None:
    # Tables of megabytes come and go thousands of times: keep malloc from returning them to the system each time.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
    result = subprocess.run([faults], env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 wrong" in result.stdout
