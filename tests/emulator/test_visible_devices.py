"""CUDA_VISIBLE_DEVICES: which devices a process sees, in which order, and where its memory counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmlake.trace import read_trace
from tests.emulator.device import run
from tests.emulator.running import Emulated

UUID = "GPU-676d6c61-6b65-2065-6d75-6c617465640"  # without the device
LISTS = {
    None: [0, 1, 2],
    "": [],
    "-1": [],
    "1": [1],
    "2,0": [2, 0],
    " 1, 2": [1, 2],
    "1gpu,0": [1, 0],
    "0,7,1": [0],
    "0,-1,1": [0],
    "1,,2": [1],
    "3": [],
    "none": [],
    "1,1": [],
    f"{UUID}2,{UUID}0": [2, 0],
    f"{UUID}1,{UUID}7,{UUID}0": [1],
    f"{UUID}1,{UUID}1": [],
    f"{UUID}1,0": [1],
    f"0,{UUID}1": [0],
    "GPU-676d": [],  # ambiguous
}


@pytest.mark.parametrize(("visible", "expected"), LISTS.items())
def test_what_is_seen(visible: str | None, expected: list[int]) -> None:
    """Each device is the one that its UUID, its bus and NVML say; NVML itself knows nothing of the variable."""
    run(
        "count=3",
        f"""
        expected = {expected!r}
        count, total = ctypes.c_int(), ctypes.c_uint()
        assert device.initialized == (OK if expected else NO_DEVICE)
        assert device.call("cudaGetDeviceCount", ctypes.byref(count)) == (OK if expected else NO_DEVICE)
        assert count.value == len(expected)
        assert device.call("cuDeviceGetCount", ctypes.byref(count)) == OK and count.value == len(expected)
        assert device.call("nvmlDeviceGetCount_v2", ctypes.byref(total)) == OK and total.value == 3
        for ordinal, physical in enumerate(expected):
            uuid, bus = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
            assert device.call("cuDeviceGetUuid", uuid, ordinal) == OK and uuid.raw[15] == physical
            assert device.call("cudaDeviceGetPCIBusId", bus, 16, ordinal) == OK
            handle, text = ctypes.c_size_t(), ctypes.create_string_buffer(96)
            assert device.call("nvmlDeviceGetHandleByIndex_v2", physical, ctypes.byref(handle)) == OK
            assert device.call("nvmlDeviceGetUUID", handle, text, 96) == OK
            assert text.value.decode().replace("-", "").endswith(uuid.raw.hex())
            for name, key in (("nvmlDeviceGetHandleByUUID", text), ("nvmlDeviceGetHandleByPciBusId_v2", bus)):
                found = ctypes.c_size_t()
                assert device.call(name, key, ctypes.byref(found)) == OK and found.value == handle.value
        wrong = ctypes.c_int(len(expected))
        assert device.call("cudaSetDevice", wrong) == (INVALID_DEVICE if expected else NO_DEVICE)
        """,
        visible,
    )


def test_a_beginning_of_the_only_uuid() -> None:
    run("count=1", "assert device.initialized == OK", "GPU-6")


def test_without_a_device_there_is_no_memory() -> None:
    program = """
    out, total = ctypes.c_size_t(), ctypes.c_size_t()
    for name in ("cudaMalloc", "cuMemAlloc_v2"):
        assert device.call(name, ctypes.byref(out), GRANULE) == NO_DEVICE
    assert device.call("cudaMallocAsync", ctypes.byref(out), GRANULE, 0) == NO_DEVICE
    for name in ("cudaMemGetInfo", "cuMemGetInfo_v2"):
        assert device.call(name, ctypes.byref(out), ctypes.byref(total)) == NO_DEVICE
    assert device.create(GRANULE)[0] == INVALID_DEVICE
    """
    run("count=2", program, "")


def test_the_variable_is_read_once() -> None:
    program = """
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    count = ctypes.c_int()
    assert device.call("cudaGetDeviceCount", ctypes.byref(count)) == OK and count.value == 2
    """
    run("count=2", program, "1,0")


HANDLE = """
class Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 64),)
"""
READER = f"""{HANDLE}
at, ordinal = ctypes.c_size_t(), ctypes.c_int()
assert device.library.cudaIpcOpenMemHandle(ctypes.byref(at), Handle(tuple(SHARED)), 1) == OK
assert device.read(at.value, 6) == b"shared"
assert device.call("cuPointerGetAttribute", ctypes.byref(ordinal), 9, at.value) == OK
assert ordinal.value == EXPECTED
assert device.call("cudaIpcCloseMemHandle", at.value) == OK
"""


def test_memory_is_shared_whatever_each_process_sees() -> None:
    """It lies on GPU 0; what a process cannot see counts as being on its current device."""
    program = f"""{HANDLE}
at, handle = device.made("cudaMalloc", GRANULE), Handle()
assert device.write(at, b"shared") == OK
assert device.call("cudaIpcGetMemHandle", ctypes.byref(handle), at) == OK
for theirs, expected in ((None, 0), ("1,0", 1), ("1", 0)):
    values = f"SHARED, EXPECTED = {{bytes(handle)!r}}, {{expected}}"
    run("count=2", values + {READER!r}, theirs)
"""
    run("count=2", program, "0")


def test_two_processes_have_a_gpu_each(emulated: Emulated, tmp_path: Path) -> None:
    """60 GiB each do not fit one of them. The report and the traces name the run's GPUs; a program's own choice counts
    until CUDA is used.
    """
    program = tmp_path / "program.py"
    program.write_text("""
import os, sys, time, torch
os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
x = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
assert torch.cuda.device_count() == 1 and torch.cuda.mem_get_info()[0] < 20 << 30
open(sys.argv[2] + sys.argv[1], "w").close()
while not os.path.exists(sys.argv[2] + str(1 - int(sys.argv[1]))):
    time.sleep(0.01)
""")
    both = f"python {program} 0 {tmp_path}/ready & python {program} 1 {tmp_path}/ready; wait"
    done = emulated.command(["sh", "-c", both], "--gpus", 2, "--record", tmp_path / "out.gmt", timeout=60)
    assert done.status == 0, done.stderr
    assert sorted(row["device"] for process in done.report["processes"] for row in process["devices"]) == [0, 1]
    assert sorted(trace["device"] for trace in done.report["traces"]) == [0, 1]
    for trace in done.report["traces"]:
        assert read_trace(trace["path"], find_marks=False).device == trace["device"]


def test_devices_in_another_order(emulated: Emulated, tmp_path: Path) -> None:
    """Each device of the process has its own peak."""
    program = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "2,0"
import torch
x = [torch.empty((n + 1) << 30, dtype=torch.uint8, device=f"cuda:{n}") for n in range(2)]
"""
    done = emulated(program, "--gpus", 3, "--record", tmp_path / "out.gmt")
    assert done.status == 0, done.stderr
    [process] = done.report["processes"]
    peaks = {row["device"]: (row["peak_reserved"] >> 30, row["peak_on_device"] >> 30) for row in process["devices"]}
    assert peaks == {2: (1, 1), 0: (2, 2)}
    assert {path.name for path in tmp_path.iterdir()} == {"out.gpu0.gmt", "out.gpu2.gmt"}


def test_pytorch_counts_the_same_with_and_without_cuda(emulated: Emulated) -> None:
    """It asks NVML and reads the variable itself, until CUDA is used."""
    program = """
import os, sys, torch
for visible, expected in VALUES.items():
    if visible is not None and os.fork() == 0:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
        counts = torch.cuda.device_count(), torch._C._cuda_getDeviceCount()
        assert counts == (expected, expected), (visible, counts)
        assert torch.cuda.is_available() == (expected > 0)
        os._exit(0)
    assert visible is None or os.wait()[1] == 0
"""
    values = {visible: len(expected) for visible, expected in LISTS.items()}
    done = emulated(program.replace("VALUES", repr(values)), "--gpus", 3)
    assert done.status == 0, done.stderr
