"""Builds the native part of the benchmarks with the tools of the virtual environment, into build/bench."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"


def build(program: str) -> Path:
    """Build one program, or only what changed of it, and say where it is."""
    tools = Path(sys.executable).parent  # not resolved: beside the interpreter of the virtual environment
    environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGMLAKE_TOOLS=ON", "-DGMLAKE_PYTHON=OFF"]
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(BUILD), *options],
        ["cmake", "--build", str(BUILD), "--target", program],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return BUILD / "bench" / "native" / program
