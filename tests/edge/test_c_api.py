"""The C ABI as a host calls it: through the shared library alone, never through the binding's types."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

import pytest

from gmlake import _core
from gmlake.errors import DriverError

INVALID, OUT_OF_MEMORY, DRIVER = 1, 2, 3
LIBRARY = Path(_core.__file__).with_name("libgmlake.so")
MIB = 1 << 20

Filter = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
SIGNATURES = {
    "gmlake_init": (c_int, [c_int]),
    "gmlake_allocate": (c_void_p, [c_size_t, c_int, c_void_p]),
    "gmlake_free": (c_int, [c_void_p, c_size_t, c_int, c_void_p]),
    "gmlake_record_stream": (c_int, [c_void_p, c_void_p]),
    "gmlake_trim": (c_int, []),
    "gmlake_set_memory_fraction": (c_int, [c_double, c_int]),
    "gmlake_begin_pool": (c_int, [c_int, c_uint64, c_uint64, Filter, c_void_p]),
    "gmlake_end_pool": (c_int, [c_int, c_uint64, c_uint64]),
    "gmlake_release_pool": (c_int, [c_int, c_uint64, c_uint64]),
    "gmlake_last_error": (c_char_p, []),
}


@pytest.fixture(scope="module")
def api() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def why(api: ctypes.CDLL) -> str:
    """The sentence of the last failure on this thread."""
    return bytes(api.gmlake_last_error()).decode()


@pytest.fixture(scope="module")
def device() -> int:
    try:
        _core.process_allocator(0)
    except DriverError as error:
        pytest.skip(str(error))
    return 0


class TestMistakes:
    def test_devices(self, api: ctypes.CDLL) -> None:
        assert api.gmlake_init(0) == 0
        assert api.gmlake_init(-1) == INVALID
        assert why(api) == "-1 devices are impossible; expected 0 to 64"
        assert api.gmlake_allocate(512, 64, None) is None
        assert why(api) == "device 64 does not exist; expected 0 to 63"

    def test_frees(self, api: ctypes.CDLL) -> None:
        assert api.gmlake_free(None, 0, 0, None) == 0
        assert api.gmlake_free(4096, 512, 63, None) == INVALID
        assert why(api) == "nothing was ever allocated on device 63"
        assert api.gmlake_record_stream(4096, None) == INVALID
        assert why(api) == "address 0x1000 is not allocated on any device"

    @pytest.mark.parametrize("fraction", [-0.1, 1.5, math.nan])
    def test_fractions(self, api: ctypes.CDLL, fraction: float) -> None:
        assert api.gmlake_set_memory_fraction(fraction, 0) == INVALID
        assert "expected 0 to 1" in why(api)

    def test_pools_of_a_device_never_used(self, api: ctypes.CDLL) -> None:
        assert api.gmlake_end_pool(63, 0, 1) == INVALID
        assert api.gmlake_release_pool(63, 0, 1) == INVALID

    def test_each_thread_has_its_own_last_error(self, api: ctypes.CDLL) -> None:
        assert api.gmlake_init(-1) == INVALID
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(why, api).result() == ""
            assert pool.submit(api.gmlake_init, 65).result() == INVALID
            assert pool.submit(why, api).result().startswith("65 devices")
        assert why(api).startswith("-1 devices")

    def test_unknown_option_in_the_environment(self) -> None:
        assert init_with("GMLAKE_COLOUR", "red").startswith(f"{INVALID} GMLAKE_COLOUR: unknown option 'colour'")

    @pytest.mark.parametrize("switch", ["DEVICE", "EMULATE", "RECORD", "LOG"])
    def test_switches_in_the_environment_are_no_options(self, switch: str) -> None:
        assert init_with(f"GMLAKE_{switch}", "anything") == "0 "
        assert init_with(f"GMLAKE_{switch}S", "anything").startswith(f"{INVALID} GMLAKE_{switch}S: unknown option")

    def test_impossible_option_in_the_environment(self) -> None:
        (row,) = (row for row in _core.catalogue() if row.name == "gmlake")
        option = next(option for option in row.options if option.kind != "text")
        variable = f"GMLAKE_{option.name.upper()}"
        assert init_with(variable, option.fallback) == "0 "
        assert init_with(variable, "much").startswith(f"{INVALID} {variable}: ")


def init_with(variable: str, value: str) -> str:
    """What gmlake_init returns and says in a process whose environment has this variable."""
    program = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]);"
        "library.gmlake_last_error.restype = ctypes.c_char_p;"
        "print(library.gmlake_init(1), library.gmlake_last_error().decode())"
    )
    command = [sys.executable, "-c", program, str(LIBRARY)]
    environment = {**os.environ, variable: value}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return result.stdout.removesuffix("\n")


def test_without_a_driver(api: ctypes.CDLL) -> None:
    try:
        _core.CudaDriver(0)
    except DriverError as error:
        assert api.gmlake_allocate(512, 0, None) is None
        assert why(api) == str(error)
        assert api.gmlake_set_memory_fraction(0.5, 0) == DRIVER
    else:
        pytest.skip("this machine has a CUDA device")


class TestDevice:
    def test_python_sees_the_same_allocator(self, api: ctypes.CDLL, device: int) -> None:
        allocator = _core.process_allocator(device)
        before = allocator.statistics()["allocated_bytes"]["all"]["current"]
        address = api.gmlake_allocate(3 * MIB, device, None)
        assert address
        assert allocator.statistics()["allocated_bytes"]["all"]["current"] >= before + 3 * MIB
        assert api.gmlake_record_stream(address, None) == 0
        assert api.gmlake_free(address, 3 * MIB, device, None) == 0
        assert allocator.statistics()["allocated_bytes"]["all"]["current"] == before
        assert api.gmlake_free(address, 3 * MIB, device, None) == INVALID
        assert api.gmlake_trim() == 0
        allocator.check()

    def test_size_zero(self, api: ctypes.CDLL, device: int) -> None:
        assert api.gmlake_allocate(0, device, None) is None

    def test_more_than_there_is(self, api: ctypes.CDLL, device: int) -> None:
        _, _, total = _core.process_driver(device).memory_info()
        assert api.gmlake_allocate(2 * total, device, None) is None
        assert "memory" in why(api)

    def test_the_fraction_limits(self, api: ctypes.CDLL, device: int) -> None:
        _, _, total = _core.process_driver(device).memory_info()
        assert api.gmlake_trim() == 0
        assert api.gmlake_set_memory_fraction(0.01, device) == 0
        assert api.gmlake_allocate(total // 50, device, None) is None
        assert api.gmlake_set_memory_fraction(1.0, device) == 0
        address = api.gmlake_allocate(total // 50, device, None)
        assert address
        assert api.gmlake_free(address, total // 50, device, None) == 0

    def test_pools_ask_the_filter(self, api: ctypes.CDLL, device: int) -> None:
        asked: list[int] = []

        def accept_all(stream: int | None, _: object) -> int:
            asked.append(stream or 0)
            return 1

        accept = Filter(accept_all)
        assert api.gmlake_begin_pool(device, 0, 9, accept, None) == 0
        address = api.gmlake_allocate(4 * MIB, device, None)
        assert api.gmlake_end_pool(device, 0, 9) == 0
        assert set(asked) == {0}
        pools = {segment.pool for segment in _core.process_allocator(device).segments()}
        assert (0, 9) in pools
        assert api.gmlake_free(address, 4 * MIB, device, None) == 0
        assert api.gmlake_release_pool(device, 0, 9) == 0
        assert api.gmlake_trim() == 0
