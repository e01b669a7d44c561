"""Kernels in Triton, which the program brings itself or torch.compile makes: none is redone, and the user is told so.

They come in two ways, through Triton itself and through a launcher of PyTorch's for what it has compiled before.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch


def on_load(told: Callable[[str], None]) -> None:
    """Call this with the name of every kernel that is loaded, as far as this Triton and this PyTorch can tell."""
    if importlib.util.find_spec("triton") is None:
        return
    hooks = getattr(importlib.import_module("triton").knobs.runtime, "kernel_load_end_hook", None)
    if hooks is not None and hasattr(hooks, "add"):
        hooks.add(lambda _module, _function, name, *_: told(name))
    launcher = getattr(torch._C, "_StaticCudaLauncher", None)
    if launcher is not None:
        torch._C._StaticCudaLauncher = _telling(launcher, told)


def _telling(launcher: Any, told: Callable[[str], None]) -> Any:
    """The same functions in another object, because the launcher itself cannot be changed."""

    def load(path: str, name: str, *rest: Any) -> Any:
        told(name)
        return launcher._load_kernel(path, name, *rest)

    functions = {name: getattr(launcher, name) for name in vars(launcher) if not name.startswith("__")}
    return SimpleNamespace(**functions | {"_load_kernel": load})
