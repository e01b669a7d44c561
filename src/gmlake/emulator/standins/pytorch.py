"""Finds the PyTorch of this environment without importing it, and tells whether it is a CUDA build."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from gmlake.errors import UserError

ADVICE = "install the CUDA build, which is the default one on Linux: pip install torch==2.14.1"


def find_torch() -> Path | None:
    """The folder with PyTorch's libraries; None when it is not installed."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    return Path(spec.origin).parent / "lib"


def torch_version(torch_lib: Path) -> str:
    """The version that an installation says it has; empty when it does not say."""
    try:
        text = (torch_lib.parent / "version.py").read_text()
    except OSError:
        return ""
    match = re.search(r"^__version__ = ['\"]([^'\"]+)", text, re.MULTILINE)
    return match[1] if match else ""


def check_cuda_build(torch_lib: Path) -> None:
    """Refuse what has no CUDA: its programs would never ask for a device."""
    if not (torch_lib / "libtorch_cuda.so").is_file():
        name = f"torch {torch_version(torch_lib)}".strip()
        raise UserError(f"{name} in {torch_lib.parent} is built without CUDA; {ADVICE}")
