"""NCCL's functions on the emulated device, called directly, and programs that run as one or several processes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.emulator.device import OK, Device

INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR = 4, 5, 6
HOST, DEVICE = 1, 0  # where a factor is
SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE = range(5)
INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, E4M3, E5M2 = range(12)
TYPES = {
    INT8: np.int8,
    UINT8: np.uint8,
    INT32: np.int32,
    UINT32: np.uint32,
    INT64: np.int64,
    UINT64: np.uint64,
    FLOAT16: np.float16,
    FLOAT32: np.float32,
    FLOAT64: np.float64,
    BFLOAT16: np.uint16,  # as bits
    E4M3: np.uint8,
    E5M2: np.uint8,
}
HEAD = """
import os, sys
from tests.emulator.nccl import *
nccl = Nccl({configuration!r})
rank, ranks = {rank}, {ranks}
"""


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = (("bytes", ctypes.c_char * 128),)


class Nccl:
    """The library. Arrays stand for device memory."""

    def __init__(self, configuration: str) -> None:
        self.device = Device(configuration)
        self.library = self.device.library
        self.library.ncclGetLastError.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: Any) -> int:
        """The function's result."""
        return self.device.call(name, *arguments)

    def put(self, values: Any) -> Buffer:
        """A copy on the device."""
        return Buffer(self.device, np.ascontiguousarray(values))

    def zeros(self, count: int, type: int) -> Buffer:
        """Memory for so many numbers."""
        return self.put(np.zeros(count, TYPES[type]))

    def unique_id(self) -> UniqueId:
        """A new one."""
        identity = UniqueId()
        assert self.library.ncclGetUniqueId(ctypes.byref(identity)) == OK
        return identity

    def join(self, ranks: int, rank: int, identity: UniqueId | None = None) -> int:
        """A communicator."""
        handle = ctypes.c_size_t()
        assert self.library.ncclCommInitRank(ctypes.byref(handle), ranks, identity or self.unique_id(), rank) == OK
        return handle.value

    def meet(self, path: str, ranks: int, rank: int) -> int:
        """A communicator with the other processes, which find the id in a file."""
        file = Path(path)
        if rank == 0:
            identity = self.unique_id()
            file.with_suffix(".new").write_bytes(bytes(identity))
            file.with_suffix(".new").rename(file)
        while not file.exists():
            time.sleep(0.01)
        return self.join(ranks, rank, UniqueId.from_buffer_copy(file.read_bytes()))

    def made(self, name: str, *arguments: Any) -> int:
        """What a call hands out through its last argument but one (the configuration)."""
        out = ctypes.c_size_t()
        assert self.call(name, *arguments, ctypes.byref(out), 0) == OK
        return out.value

    def scaled_sum(self, factor: Any, type: int, where: int, handle: int) -> int:
        """An operator that multiplies first."""
        out = ctypes.c_int()
        assert self.call("ncclRedOpCreatePreMulSum", ctypes.byref(out), factor, type, where, handle) == OK
        return out.value

    def asked(self, name: str, handle: int) -> int:
        """A number that a communicator tells."""
        out = ctypes.c_int()
        assert self.call(name, handle, ctypes.byref(out)) == OK
        return out.value


class Buffer:
    """Numbers on the device; behaves as an address."""

    def __init__(self, device: Device, values: Any) -> None:
        self.device = device
        self.dtype = values.dtype
        self.size = values.nbytes
        self.at = device.made("cuMemAlloc_v2", max(1, values.nbytes))
        if self.size:
            assert device.write(self.at, values.tobytes()) == OK

    @property
    def _as_parameter_(self) -> ctypes.c_size_t:
        return ctypes.c_size_t(self.at)

    def __add__(self, items: int) -> ctypes.c_size_t:
        return ctypes.c_size_t(self.at + items * self.dtype.itemsize)

    def values(self) -> list[Any]:
        """What is there now."""
        return list(np.frombuffer(self.device.read(self.at, self.size), self.dtype).tolist())


def program(configuration: str, text: str, rank: int = 0, ranks: int = 1) -> subprocess.Popen[str]:
    """A program on a machine of its own, with `nccl`, `rank`, `ranks` and every name of this module at hand."""
    head = HEAD.format(configuration=configuration, rank=rank, ranks=ranks)
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def run_one(configuration: str, text: str) -> str:
    """Run it; what it said on stderr."""
    return run_all(configuration, text, 1)[0]


def run_all(configuration: str, text: str, ranks: int, fails: tuple[int, ...] = ()) -> list[str]:
    """Run it as several processes; what they said on stderr. Those named may end badly."""
    processes = [program(configuration, text, rank, ranks) for rank in range(ranks)]
    try:
        errors = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (process, error) in enumerate(zip(processes, errors, strict=True)):
        assert rank in fails or process.returncode == 0, error
    return errors
