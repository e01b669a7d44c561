"""Memory of the emulated device: what the driver checks, what is left when it refuses, and what the bytes are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.emulator.conftest import MEMORY
from tests.emulator.device import (
    GRANULE,
    ILLEGAL_ADDRESS,
    INVALID_DEVICE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    OK,
    OUT_OF_MEMORY,
    Device,
)


@contextmanager
def mapped(device: Device, granules: int = 1, access: bool = True) -> Iterator[tuple[int, int]]:
    """A range with one handle mapped into it."""
    size = granules * GRANULE
    at = device.made("cuMemAddressReserve", size, 0, 0, 0)
    status, handle = device.create(size)
    assert status == OK
    assert device.call("cuMemMap", at, size, 0, handle, 0) == OK
    if access:
        assert device.set_access(at, size) == OK
    yield at, handle
    assert device.call("cuMemUnmap", at, size) == OK
    assert device.call("cuMemRelease", handle) == OK
    assert device.call("cuMemAddressFree", at, size) == OK


class TestVirtualMemory:
    def test_sizes_are_whole_granules(self, device: Device) -> None:
        for size in (0, 1, GRANULE - 1, GRANULE + 512):
            assert device.create(size)[0] == INVALID_VALUE
            assert device.call("cuMemAddressReserve", ctypes.byref(ctypes.c_size_t()), size, 0, 0, 0) == INVALID_VALUE

    def test_a_device_that_does_not_exist(self, device: Device) -> None:
        assert device.create(GRANULE, device=2)[0] == INVALID_DEVICE
        with mapped(device) as (at, _):
            assert device.set_access(at, GRANULE, device=2) == INVALID_DEVICE

    def test_fabric_handles_are_not_supported(self, device: Device) -> None:
        assert device.create(GRANULE, handle_types=8)[0] == NOT_SUPPORTED

    def test_capacity(self, device: Device) -> None:
        assert device.create(MEMORY + GRANULE)[0] == OUT_OF_MEMORY
        status, whole = device.create(MEMORY)
        assert status == OK
        assert device.create(GRANULE)[0] == OUT_OF_MEMORY
        status, other = device.create(GRANULE, device=1)  # the other card has its own
        assert status == OK
        for handle in (whole, other):
            assert device.call("cuMemRelease", handle) == OK

    def test_only_whole_handles_are_mapped(self, device: Device) -> None:
        at = device.made("cuMemAddressReserve", 4 * GRANULE, 0, 0, 0)
        _, handle = device.create(2 * GRANULE)
        assert device.call("cuMemMap", at, GRANULE, 0, handle, 0) == INVALID_VALUE
        assert device.call("cuMemMap", at, GRANULE, GRANULE, handle, 0) == INVALID_VALUE
        assert device.call("cuMemMap", at + 512, 2 * GRANULE, 0, handle, 0) == INVALID_VALUE
        assert device.call("cuMemMap", at + 3 * GRANULE, 2 * GRANULE, 0, handle, 0) == INVALID_VALUE
        assert device.call("cuMemRelease", handle) == OK
        assert device.call("cuMemMap", at, 2 * GRANULE, 0, handle, 0) == INVALID_VALUE
        assert device.call("cuMemAddressFree", at, 4 * GRANULE) == OK

    def test_nothing_is_mapped_twice_at_one_place(self, device: Device) -> None:
        with mapped(device) as (at, handle):
            assert device.call("cuMemMap", at, GRANULE, 0, handle, 0) == INVALID_VALUE

    def test_a_range_in_use_is_not_freed(self, device: Device) -> None:
        with mapped(device) as (at, _):
            assert device.call("cuMemAddressFree", at, GRANULE) == INVALID_VALUE

    def test_only_whole_mappings_are_unmapped(self, device: Device) -> None:
        with mapped(device, granules=2) as (at, _):
            assert device.call("cuMemUnmap", at, GRANULE) == INVALID_VALUE
            assert device.call("cuMemUnmap", at + GRANULE, GRANULE) == INVALID_VALUE
            assert device.set_access(at, GRANULE) == INVALID_VALUE

    def test_released_memory_lives_until_it_is_unmapped(self, device: Device) -> None:
        at = device.made("cuMemAddressReserve", GRANULE, 0, 0, 0)
        _, handle = device.create(GRANULE)
        before = device.used()
        assert device.call("cuMemMap", at, GRANULE, 0, handle, 0) == OK
        assert device.call("cuMemRelease", handle) == OK
        assert device.call("cuMemRelease", handle) == INVALID_VALUE
        assert device.used() == before
        assert device.call("cuMemUnmap", at, GRANULE) == OK
        assert device.used() == before - GRANULE
        assert device.call("cuMemAddressFree", at, GRANULE) == OK

    def test_exported_memory_is_the_same_memory(self, device: Device) -> None:
        _, handle = device.create(GRANULE, handle_types=1)
        file = ctypes.c_int()
        assert device.call("cuMemExportToShareableHandle", ctypes.byref(file), handle, 1, 0) == OK
        imported = device.made("cuMemImportFromShareableHandle", file.value, 1)
        os.close(file.value)
        first, second = (device.made("cuMemAddressReserve", GRANULE, 0, 0, 0) for _ in range(2))
        for at, which in ((first, handle), (second, imported)):
            assert device.call("cuMemMap", at, GRANULE, 0, which, 0) == OK
            assert device.set_access(at, GRANULE) == OK
        assert device.write(first, b"the same") == OK
        assert device.read(second, 8) == b"the same"
        for at, which in ((first, handle), (second, imported)):
            assert device.call("cuMemUnmap", at, GRANULE) == OK
            assert device.call("cuMemRelease", which) == OK
            assert device.call("cuMemAddressFree", at, GRANULE) == OK


class TestCopies:
    def test_memory_without_access_is_an_illegal_address(self, device: Device) -> None:
        with mapped(device, access=False) as (at, _):
            assert device.write(at, b"x") == ILLEGAL_ADDRESS
            assert device.call("cuMemsetD8_v2", at, 1, 1) == ILLEGAL_ADDRESS
        at = device.made("cuMemAddressReserve", GRANULE, 0, 0, 0)
        assert device.write(at, b"x") == ILLEGAL_ADDRESS
        assert device.call("cuMemAddressFree", at, GRANULE) == OK

    def test_nothing_is_copied_to_or_from_nowhere(self, device: Device) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        assert device.call("cuMemcpyHtoD_v2", 0, b"text", 4) == INVALID_VALUE
        assert device.call("cuMemcpyHtoD_v2", at, None, 4) == INVALID_VALUE
        assert device.call("cuMemcpyHtoD_v2", 0, None, 0) == OK
        assert device.call("cuMemFree_v2", at) == OK
        buffer = ctypes.create_string_buffer(b"text")
        for where in (0, ctypes.addressof(buffer)):
            assert device.call("cuMemsetD8_v2", where, ctypes.c_ubyte(1), 1) == INVALID_VALUE
        assert buffer.value == b"text"

    def test_a_copy_across_the_end_of_access(self, device: Device) -> None:
        at = device.made("cuMemAddressReserve", 2 * GRANULE, 0, 0, 0)
        _, handle = device.create(GRANULE)
        assert device.call("cuMemMap", at, GRANULE, 0, handle, 0) == OK
        assert device.set_access(at, GRANULE) == OK
        assert device.write(at + GRANULE - 4, b"12345678") == ILLEGAL_ADDRESS
        assert device.write(at + GRANULE - 8, b"12345678") == OK
        assert device.call("cuMemUnmap", at, GRANULE) == OK
        assert device.call("cuMemRelease", handle) == OK
        assert device.call("cuMemAddressFree", at, 2 * GRANULE) == OK

    def test_a_handle_at_two_places_is_one_memory(self, device: Device) -> None:
        with mapped(device) as (at, handle):
            alias = device.made("cuMemAddressReserve", GRANULE, 0, 0, 0)
            assert device.call("cuMemMap", alias, GRANULE, 0, handle, 0) == OK
            assert device.set_access(alias, GRANULE) == OK
            assert device.write(at + 100, b"stitched") == OK
            assert device.read(alias + 100, 8) == b"stitched"
            device.call("gmlake_device_fresh", alias, GRANULE)
            assert device.read(at + 100, 8) == bytes(8)
            assert device.call("cuMemUnmap", alias, GRANULE) == OK
            assert device.call("cuMemAddressFree", alias, GRANULE) == OK

    def test_new_memory_reads_as_zero(self, device: Device) -> None:
        for _ in range(2):
            at = device.made("cuMemAlloc_v2", GRANULE)
            assert device.read(at, 4096) == bytes(4096)
            assert device.write(at, b"\xff" * 4096) == OK
            assert device.call("cuMemFree_v2", at) == OK

    def test_fresh_forgets_exactly_its_part(self, device: Device) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        assert device.write(at, b"abcdefgh") == OK
        device.call("gmlake_device_fresh", at + 2, 4)
        assert device.read(at, 8) == b"ab\0\0\0\0gh"
        assert device.call("cuMemFree_v2", at) == OK

    def test_large_copies_only_account(self, device: Device) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        assert device.write(at, b"small") == OK
        assert device.write(at, b"\xff" * 65537) == OK
        assert device.read(at, 8) == bytes(8)
        assert device.call("cuMemFree_v2", at) == OK

    def test_fills(self, device: Device) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        assert device.call("cuMemsetD8_v2", at, ctypes.c_ubyte(7), 6) == OK
        assert device.call("cuMemsetD32_v2", at + 8, ctypes.c_uint(0x01020304), 2) == OK
        assert device.read(at, 16) == b"\7" * 6 + b"\0\0" + b"\4\3\2\1" * 2
        assert device.call("cuMemsetD8_v2", at, ctypes.c_ubyte(0), 16) == OK
        assert device.read(at, 16) == bytes(16)
        assert device.call("cuMemFree_v2", at) == OK

    def test_between_the_cards(self, device: Device) -> None:
        here = device.made("cuMemAlloc_v2", GRANULE)
        assert device.call("cudaSetDevice", 1) == OK
        there = device.made("cuMemAlloc_v2", GRANULE)
        assert device.used(1) == GRANULE
        assert device.write(here, b"peer") == OK
        assert device.call("cudaMemcpyPeerAsync", there, 1, here, 0, 4, 0) == OK
        assert device.read(there, 4) == b"peer"
        for at in (here, there):
            assert device.call("cuMemFree_v2", at) == OK


class TestAllocations:
    def test_free_of_what_was_never_handed_out(self, device: Device) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        assert device.call("cuMemFree_v2", at + 512) == INVALID_VALUE
        assert device.call("cuMemFree_v2", at) == OK
        assert device.call("cuMemFree_v2", at) == INVALID_VALUE
        assert device.call("cuMemFree_v2", 0) == OK

    def test_pinned_memory(self, device: Device) -> None:
        at = device.made("cuMemHostAlloc", 1 << 20, 0)
        kind = ctypes.c_uint()
        assert device.call("cuPointerGetAttribute", ctypes.byref(kind), 2, at) == OK
        assert kind.value == 1
        ctypes.memset(at, 1, 1 << 20)
        assert device.call("cuMemFreeHost", at) == OK
        assert device.call("cuMemFreeHost", at) == INVALID_VALUE

    def test_attributes_of_memory_that_the_device_does_not_have(self, device: Device) -> None:
        buffer, kind, number = ctypes.create_string_buffer(8), ctypes.c_uint(7), ctypes.c_int(7)
        kinds = (ctypes.c_int * 2)(2, 9)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(kind), ctypes.addressof(number))
        at = ctypes.addressof(buffer)
        assert device.call("cuPointerGetAttribute", ctypes.byref(kind), 2, at) == INVALID_VALUE
        assert device.call("cuPointerGetAttributes", 2, kinds, values, at) == OK
        assert (kind.value, number.value) == (0, -2)

    def test_registered_memory(self, device: Device) -> None:
        buffer = ctypes.create_string_buffer(8192)
        at = ctypes.addressof(buffer)
        assert device.call("cuMemHostRegister_v2", at, 8192, 0) == OK
        assert device.call("cuMemHostRegister_v2", at + 4096, 1, 0) == 712
        assert device.call("cuMemHostUnregister", at) == OK
        assert device.call("cuMemHostUnregister", at) == 713


class TestPool:
    """cudaMallocAsync."""

    def attribute(self, device: Device, number: int) -> int:
        pool = device.made("cudaDeviceGetDefaultMemPool", 0)
        value = ctypes.c_uint64()
        assert device.call("cudaMemPoolGetAttribute", pool, number, ctypes.byref(value)) == OK
        return value.value

    def test_blocks_share_segments_and_come_back(self, device: Device) -> None:
        stream = device.made("cudaStreamCreate")
        first = device.made("cudaMallocAsync", 1000, stream)
        second = device.made("cudaMallocAsync", 1000, stream)
        assert abs(first - second) == 1024
        assert (self.attribute(device, 5), self.attribute(device, 7)) == (32 << 20, 2048)
        assert device.call("cudaFreeAsync", first, stream) == OK
        assert device.call("cudaFreeAsync", first, stream) == INVALID_VALUE
        assert device.made("cudaMallocAsync", 1024, stream) == first
        for at in (first, second):
            assert device.call("cudaFreeAsync", at, stream) == OK
        assert self.attribute(device, 5) == 32 << 20
        pool = device.made("cudaDeviceGetDefaultMemPool", 0)
        assert device.call("cudaMemPoolTrimTo", pool, 0) == OK
        assert self.attribute(device, 5) == 0
        assert device.call("cudaStreamDestroy", stream) == OK

    def test_memory_is_of_the_stream_s_device(self, device: Device) -> None:
        device.call("cudaSetDevice", 1)
        stream, pool = device.made("cudaStreamCreate"), device.made("cudaDeviceGetDefaultMemPool", 1)
        device.call("cudaSetDevice", 0)
        block, number = device.made("cudaMallocAsync", 1000, stream), ctypes.c_int(7)
        assert device.call("cuPointerGetAttribute", ctypes.byref(number), 9, block) == OK
        assert number.value == 1
        assert device.call("cudaFreeAsync", block, stream) == OK
        assert device.call("cudaMemPoolTrimTo", pool, 0) == OK

    def test_the_pool_orders_streams_that_get_each_other_s_memory(self, device: Device) -> None:
        streams = [device.made("cudaStreamCreateWithFlags", 1) for _ in range(2)]
        before, places = device.call("gmlake_device_hazards"), set()
        for stream in streams:
            block = device.made("cudaMallocAsync", 1000, stream)
            places.add(block)
            assert device.call("cudaMemsetAsync", block, 1, 1000, stream) == OK
            assert device.call("cudaFreeAsync", block, stream) == OK
        assert (len(places), device.call("gmlake_device_hazards")) == (1, before)
        assert device.call("cudaMemPoolTrimTo", device.made("cudaDeviceGetDefaultMemPool", 0), 0) == OK

    def test_a_full_device_gets_free_segments_back_first(self, device: Device) -> None:
        first = device.made("cudaMallocAsync", MEMORY // 2 + GRANULE, 0)
        assert device.call("cudaFreeAsync", first, 0) == OK
        second = device.made("cudaMallocAsync", MEMORY, 0)
        out = ctypes.c_size_t()
        assert device.call("cudaMallocAsync", ctypes.byref(out), 512, 0) == OUT_OF_MEMORY
        assert device.call("cudaFreeAsync", second, 0) == OK
        pool = device.made("cudaDeviceGetDefaultMemPool", 0)
        assert device.call("cudaMemPoolTrimTo", pool, 0) == OK
