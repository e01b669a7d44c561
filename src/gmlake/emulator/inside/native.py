"""The control functions of the emulated device, which is loaded into this process (libgmlake_device.so).

Nothing here knows PyTorch. Callbacks run Python from native threads: they must not raise. They end with the
interpreter, which a copy made by a destructor afterwards could no longer run.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable

_library = ctypes.CDLL(None)  # preloaded: its symbols are in the global scope
_callbacks: list[object] = []

ReadCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
ReplayCallback = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


def loaded() -> bool:
    """Whether this process runs on the emulated device."""
    return hasattr(_library, "gmlake_device_peak")


def configured(key: str) -> str | None:
    """What the device was told under this key, or None (the variable is the device's own, see the launcher)."""
    for part in os.environ.get("GMLAKE_DEVICE", "").split(";"):
        name, _, value = part.partition("=")
        if name == key:
            return value
    return None


def _function(name: str, result: object, *arguments: object) -> Callable[..., int]:
    function = getattr(_library, f"gmlake_device_{name}", None)
    if function is None:
        return _missing(name)
    function.restype = result
    function.argtypes = arguments
    found: Callable[..., int] = function
    return found


def physical(device: int) -> int:
    """Which of the run's GPUs this process calls so, by CUDA_VISIBLE_DEVICES; a real machine's is not known."""
    return _physical(device) if loaded() else device


def _missing(name: str) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise RuntimeError(f"gmlake_device_{name} is not in this process: it was not started by gmlake run --emulate")

    return call


peak = _function("peak", ctypes.c_size_t, ctypes.c_int)
_physical = _function("physical", ctypes.c_int, ctypes.c_int)
hazards = _function("hazards", ctypes.c_int)
touch = _function(
    "touch", None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int
)
capture_call = _function("capture_call", ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64)
collective_group = _function("collective_group", None, ctypes.c_int, ctypes.c_int)
_on_read = _function("on_read", None, ReadCallback)
_on_replay = _function("on_replay", None, ReplayCallback)


def on_read(callback: Callable[[int, int], None]) -> None:
    """Call this after every device-to-host copy, with the address and the number of bytes."""
    _watch(_on_read, ReadCallback(callback), ReadCallback())


def on_replay(callback: Callable[[int], None]) -> None:
    """Call this when the launch of a graph reaches a recorded call."""
    _watch(_on_replay, ReplayCallback(callback), ReplayCallback())


def _watch(register: Callable[..., int], callback: object, nobody: object) -> None:
    _callbacks.append(callback)  # the device holds no reference
    register(callback)
    atexit.register(register, nobody)
