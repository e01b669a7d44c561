"""The core's driver where devices and streams are in its way: peers that refuse access, the default stream beside a
capture, streams of another device. Each program has a machine of its own, and calls the same emulated libcuda.so.1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from gmlake.emulator.launch import native_library
from gmlake.emulator.standins import stand_ins

HEAD = """
import ctypes
from gmlake._core import CudaDriver, Status
from tests.emulator.device import *
device = Device({configuration!r})
def made(result):
    status, value = result
    assert status is Status.success, status
    return value
def mapped(driver):
    at = made(driver.reserve(GRANULE))
    assert driver.map(at, GRANULE, made(driver.create(GRANULE))) is Status.success
    return at
def granted(at):
    flags, found = ctypes.c_ulonglong(), []
    for number in range(4):
        where = (ctypes.c_int * 2)(1, number)
        assert device.call("cuMemGetAccess", ctypes.byref(flags), where, at) == OK
        found.append(flags.value)
    return found
"""


def run(configuration: str, program: str) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")},
        "LD_PRELOAD": f"{native_library()}:{stand_ins(None)}",
        "GMLAKE_DEVICE": configuration,
    }
    source = HEAD.format(configuration=configuration) + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_peers_that_refuse_access_are_given_up_singly() -> None:
    run(
        "count=4;peers=2",
        """
        assert device.call("cudaSetDevice", 1) == OK  # which has all its peers before we come
        assert [device.call("cudaDeviceEnablePeerAccess", peer, 0) for peer in (2, 3)] == [OK, OK]
        driver = CudaDriver(0)
        for _ in range(2):
            at = mapped(driver)
            assert driver.set_access(at, GRANULE) is Status.success
            assert granted(at) == [3, 0, 3, 3]
        at = made(driver.reserve(GRANULE))
        assert driver.set_access(at, GRANULE) is Status.invalid_value  # nothing is mapped: no peer's fault
        again = mapped(driver)
        assert driver.set_access(again, GRANULE) is Status.success
        assert granted(again) == [3, 0, 3, 3]
        """,
    )


def test_devices_that_cannot_reach_each_other() -> None:
    run(
        "count=4;peers=0",
        """
        driver = CudaDriver(2)
        at = mapped(driver)
        assert driver.set_access(at, GRANULE) is Status.success
        assert granted(at) == [0, 0, 3, 0]
        """,
    )


def test_the_default_stream_counts_as_capturing_beside_a_blocking_stream_that_does() -> None:
    run(
        "",
        """
        driver, event = CudaDriver(0), made(CudaDriver(0).create_event())
        for flags, implied in ((1, False), (0, True)):
            stream, graph = device.made("cuStreamCreate", flags), ctypes.c_size_t()
            assert device.call("cuStreamBeginCapture_v2", stream, RELAXED) == OK
            assert driver.is_capturing(stream) == (Status.success, True)
            assert driver.is_capturing(0) == (Status.success, implied)
            assert device.call("cuStreamEndCapture", stream, ctypes.byref(graph)) == OK  # the question spoilt nothing
            assert driver.is_capturing(0) == (Status.success, False)
        """,
    )


def test_a_stream_of_another_device_is_waited_for() -> None:
    run(
        "count=2;kernel_us=1000000",
        """
        driver, one = CudaDriver(0), ctypes.c_uint(1)
        event = made(driver.create_event())
        assert device.call("cudaSetDevice", 1) == OK
        stream = device.made("cuStreamCreate", 1)
        assert device.call("cuLaunchKernel", 0, *[one] * 7, stream, 0, 0) == OK
        assert device.call("cuStreamQuery", stream) == NOT_READY
        assert driver.record(event, stream) is Status.invalid_value
        assert device.call("cuStreamQuery", stream) == OK
        assert device.call("cuStreamBeginCapture_v2", stream, RELAXED) == OK
        assert driver.record(event, stream) is Status.unknown  # and so nobody takes it for gone
        assert device.call("cuStreamEndCapture", stream, ctypes.byref(ctypes.c_size_t())) == OK
        """,
    )
