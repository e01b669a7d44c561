"""The emulated device's library, called directly: CUDA's driver and runtime functions by name, results as numbers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from gmlake import _core

OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_READY, ILLEGAL_ADDRESS = 0, 1, 2, 600, 700
INVALID_DEVICE, INVALID_HANDLE, ILLEGAL_STATE, NOT_SUPPORTED = 101, 400, 401, 801
NO_DEVICE = 100
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_ISOLATION = 900, 901, 904, 905
CAPTURE_MERGE, CAPTURE_IMPLICIT, CAPTURED_EVENT, CAPTURE_WRONG_THREAD = 902, 906, 907, 908
INVALID_CONFIGURATION = 9
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2

GRANULE = 2 << 20
LIBRARY = Path(_core.__file__).with_name("libgmlake_device.so")


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location_type", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int))


class Dimensions(ctypes.Structure):
    """dim3."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class Device:
    """One process has one emulated machine: `configuration` and `visible` count where it is loaded first."""

    def __init__(self, configuration: str, visible: str | None = None) -> None:
        """All devices are visible, whatever the variable says of this machine's own."""
        settings = {"GMLAKE_DEVICE": configuration, "CUDA_VISIBLE_DEVICES": visible}
        before = {name: os.environ.get(name) for name in settings}
        _set_variables(settings)
        self.library = ctypes.CDLL(str(LIBRARY))
        self.initialized = self.call("cuInit", 0)
        _set_variables(before)  # the first is no option of the allocator's

    def call(self, name: str, *arguments: Any) -> int:
        """The function's result; whole numbers are passed as 64 bits."""
        wide = [ctypes.c_size_t(a) if isinstance(a, int) and not isinstance(a, bool) else a for a in arguments]
        return int(getattr(self.library, name)(*wide))

    def made(self, name: str, *arguments: Any) -> int:
        """What a call hands out through its first argument; it must succeed."""
        out = ctypes.c_size_t()
        assert self.call(name, ctypes.byref(out), *arguments) == OK
        return out.value

    def create(self, size: int, device: int = 0, handle_types: int = 0) -> tuple[int, int]:
        """A handle, or the refusal."""
        handle = ctypes.c_ulonglong()
        properties = Properties(1, handle_types, 1, device)
        return self.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), 0), handle.value

    def set_access(self, at: int, size: int, device: int = 0, flags: int = 3) -> int:
        """Let a device read and write."""
        return self.call("cuMemSetAccess", at, size, ctypes.byref(Access(1, device, flags)), 1)

    def used(self, device: int = 0) -> int:
        """Bytes of the device's memory in use by this process."""
        function = self.library.gmlake_device_used
        function.restype = ctypes.c_size_t
        return int(function(device))

    def read(self, at: int, size: int) -> bytes:
        """Copied to the host by the device."""
        buffer = ctypes.create_string_buffer(size)
        assert self.call("cuMemcpyDtoH_v2", buffer, at, size) == OK
        return buffer.raw

    def write(self, at: int, data: bytes) -> int:
        """Copied to the device by the device."""
        return self.call("cuMemcpyHtoD_v2", at, data, len(data))


def _set_variables(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def run(configuration: str, program: str, visible: str | None = None) -> None:
    """A program on a machine of its own, with `device` and every name of the helper module at hand."""
    head = f"from tests.emulator.device import *\ndevice = Device({configuration!r}, {visible!r})\n"
    subprocess.run([sys.executable, "-c", head + textwrap.dedent(program)], check=True, timeout=60)
