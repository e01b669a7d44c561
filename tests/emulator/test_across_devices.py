"""What CUDA allows across devices, and what it refuses: events, kernels, peers, copies."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from tests.emulator.device import GRANULE, INVALID_HANDLE, INVALID_VALUE, OK, Device, Dimensions, run

WITHOUT_TIMING, INTERPROCESS = 2, 4


@pytest.fixture
def there(device: Device) -> Iterator[int]:
    """A stream of the other device, while the first one is current."""
    assert device.call("cudaSetDevice", 1) == OK
    stream = device.made("cudaStreamCreateWithFlags", 1)
    assert device.call("cudaSetDevice", 0) == OK
    yield stream
    assert device.call("cudaStreamDestroy", stream) == OK


@pytest.mark.parametrize("layer", ["cu", "cuda"])
class TestEvents:
    def create(self, device: Device, layer: str, flags: int = 0) -> int:
        return device.made("cuEventCreate" if layer == "cu" else "cudaEventCreateWithFlags", flags)

    def test_an_event_is_recorded_on_its_own_device_only(self, device: Device, layer: str, there: int) -> None:
        event = self.create(device, layer)
        assert device.call(f"{layer}EventRecord", event, there) == INVALID_HANDLE
        assert device.call(f"{layer}EventRecord", event, 0) == OK
        assert device.call("cudaSetDevice", 1) == OK
        assert device.call(f"{layer}EventRecord", event, 0) == INVALID_HANDLE  # the other device's default stream
        assert device.call(f"{layer}EventRecord", self.create(device, layer), there) == OK

    def test_anybody_may_wait_for_it_and_ask(self, device: Device, layer: str, there: int) -> None:
        event = self.create(device, layer)
        assert device.call(f"{layer}EventRecord", event, 0) == OK
        assert device.call("cudaSetDevice", 1) == OK
        assert device.call(f"{layer}StreamWaitEvent", there, event, 0) == OK
        assert device.call(f"{layer}EventSynchronize", event) == OK
        assert device.call(f"{layer}EventQuery", event) == OK

    def test_time_is_measured_on_one_device_by_events_with_timing(self, device: Device, layer: str) -> None:
        events = []
        for number, flags in ((0, 0), (0, 0), (0, WITHOUT_TIMING), (1, 0)):
            assert device.call("cudaSetDevice", number) == OK
            events.append(self.create(device, layer, flags))
            assert device.call(f"{layer}EventRecord", events[-1], 0) == OK
        first, same, untimed, other = events
        elapsed = ctypes.byref(ctypes.c_float())
        assert device.call(f"{layer}EventElapsedTime", elapsed, first, same) == OK
        assert device.call(f"{layer}EventElapsedTime", elapsed, first, untimed) == INVALID_HANDLE
        assert device.call(f"{layer}EventElapsedTime", elapsed, first, other) == INVALID_HANDLE

    def test_flags_that_contradict_each_other(self, device: Device, layer: str) -> None:
        name = "cuEventCreate" if layer == "cu" else "cudaEventCreateWithFlags"
        for flags in (INTERPROCESS, 8):
            assert device.call(name, ctypes.byref(ctypes.c_size_t()), flags) == INVALID_VALUE
        handle = ctypes.create_string_buffer(64)
        assert device.call("cudaIpcGetEventHandle", handle, self.create(device, layer)) == INVALID_HANDLE
        shared = self.create(device, layer, INTERPROCESS | WITHOUT_TIMING)
        assert device.call("cudaIpcGetEventHandle", handle, shared) == OK


def test_a_kernel_runs_on_the_current_device_only(device: Device, there: int) -> None:
    one = Dimensions(1, 1, 1)
    assert device.call("cudaLaunchKernel", 0, one, one, 0, 0, there) == INVALID_HANDLE
    assert device.call("cudaSetDevice", 1) == OK
    assert device.call("cudaLaunchKernel", 0, one, one, 0, 0, there) == OK


def test_a_copy_may_use_a_stream_of_another_device(device: Device, there: int) -> None:
    at = device.made("cudaMalloc", GRANULE)
    assert device.call("cudaMemcpyAsync", at, b"text", 4, 1, there) == OK
    assert device.read(at, 4) == b"text"
    assert device.call("cudaFree", at) == OK


def test_the_device_is_waited_for_with_streams_that_are_gone() -> None:
    run(
        "kernel_us=1000;hazards=1",
        """
        at, one = device.made("cuMemAlloc_v2", GRANULE), ctypes.c_uint(1)
        for blocking in (1, 0):
            stream, event = device.made("cuStreamCreate", blocking), device.made("cuEventCreate", 0)
            device.call("cuMemsetD8Async", at, ctypes.c_ubyte(1), 1024, stream)
            device.call("cuLaunchKernel", 0, *[one] * 7, stream, 0, 0)
            device.call("cuEventRecord", event, stream)
            assert device.call("cuStreamDestroy_v2", stream) == OK
            assert device.call("cuEventQuery", event) == NOT_READY
            assert device.call("cuCtxSynchronize") == OK
            assert device.call("cuEventQuery", event) == OK
            device.call("cuMemsetD8Async", at, ctypes.c_ubyte(1), 1024, 0)
            assert device.call("gmlake_device_hazards") == 0
        """,
    )


class TestPeers:
    def test_devices_that_cannot_reach_each_other(self) -> None:
        run(
            "count=2;peers=0",
            """
            can = ctypes.c_int(7)
            for call in ("cuDeviceCanAccessPeer", "cudaDeviceCanAccessPeer"):
                assert (device.call(call, ctypes.byref(can), 0, 1), can.value) == (OK, 0)
            assert device.call("cudaDeviceEnablePeerAccess", 1, 0) == 217
            at = [device.made("cuMemAddressReserve", GRANULE, 0, 0, 0) for _ in range(2)]
            for number in range(2):
                status, handle = device.create(GRANULE, device=number)
                assert device.call("cuMemMap", at[number], GRANULE, 0, handle, 0) == OK
                assert device.set_access(at[number], GRANULE, device=number) == OK
                assert device.set_access(at[number], GRANULE, device=1 - number) == INVALID_DEVICE
            assert device.write(at[0], b"text") == OK
            assert device.call("cudaMemcpyAsync", at[1], at[0], 4, 3, 0) == INVALID_VALUE
            assert device.call("cuMemcpyAsync", at[1], at[0], 4, 0) == INVALID_VALUE
            assert device.call("cudaMemcpyPeerAsync", at[1], 1, at[0], 0, 4, 0) == OK
            assert device.read(at[1], 4) == b"text"
            plain = device.made("cudaMalloc", GRANULE)  # what was not mapped goes through the host
            assert device.call("cudaMemcpyAsync", plain, at[1], 4, 3, 0) == OK
            """,
        )

    def test_room_for_a_few_peers(self) -> None:
        run(
            "count=4;peers=2",
            """
            at = device.made("cuMemAddressReserve", GRANULE, 0, 0, 0)
            status, handle = device.create(GRANULE)
            assert device.call("cuMemMap", at, GRANULE, 0, handle, 0) == OK
            everybody = (Access * 4)(*(Access(1, number, 3) for number in range(4)))
            assert device.call("cuMemSetAccess", at, GRANULE, everybody, 4) == 711
            assert device.write(at, b"text") == ILLEGAL_ADDRESS  # a refusal grants nothing
            assert [device.set_access(at, GRANULE, device=number) for number in range(4)] == [OK, OK, OK, 711]
            assert device.call("cudaDeviceEnablePeerAccess", 2, 0) == OK
            assert device.call("cudaDeviceEnablePeerAccess", 3, 0) == 711
            assert device.call("cudaSetDevice", 3) == OK
            assert device.call("cudaDeviceEnablePeerAccess", 0, 0) == 711
            assert device.call("cudaDeviceEnablePeerAccess", 2, 0) == OK
            """,
        )

    def test_a_pool_is_open_to_those_who_were_let_in(self) -> None:
        run(
            "count=2",
            """
            here = device.made("cudaMallocAsync", GRANULE, 0)
            pool = device.made("cudaDeviceGetDefaultMemPool", 0)
            device.call("cudaSetDevice", 1)
            there = device.made("cudaMallocAsync", GRANULE, 0)
            assert device.call("cudaMemcpyAsync", there, here, 4, 3, 0) == INVALID_VALUE
            assert device.call("cudaMemcpyPeerAsync", there, 1, here, 0, 4, 0) == OK
            assert device.call("cudaMemPoolSetAccess", pool, ctypes.byref(Access(1, 1, 3)), 1) == OK
            assert device.call("cudaMemcpyAsync", there, here, 4, 3, 0) == OK
            device.call("cudaSetDevice", 0)
            later = device.made("cudaMallocAsync", 64 << 20, 0)
            assert device.call("cudaMemcpyAsync", there, later, 4, 3, 0) == OK
            assert device.call("cudaMemPoolSetAccess", pool, ctypes.byref(Access(1, 1, 0)), 1) == OK
            assert device.call("cudaMemcpyAsync", there, later, 4, 3, 0) == INVALID_VALUE
            """,
        )
