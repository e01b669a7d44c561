"""Streams, events, captures and hazards of the emulated device."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest

from tests.emulator.device import (
    CAPTURE_IMPLICIT,
    CAPTURE_INVALIDATED,
    CAPTURE_ISOLATION,
    CAPTURE_MERGE,
    CAPTURE_UNJOINED,
    CAPTURE_UNSUPPORTED,
    CAPTURE_WRONG_THREAD,
    CAPTURED_EVENT,
    GLOBAL,
    GRANULE,
    ILLEGAL_STATE,
    INVALID_CONFIGURATION,
    INVALID_HANDLE,
    INVALID_VALUE,
    OK,
    RELAXED,
    THREAD_LOCAL,
    Device,
    Dimensions,
    run,
)

NON_BLOCKING = 1


@pytest.fixture
def streams(device: Device) -> tuple[int, int]:
    return device.made("cuStreamCreate", NON_BLOCKING), device.made("cuStreamCreate", NON_BLOCKING)


def kernel(device: Device, stream: int) -> int:
    one = ctypes.c_uint(1)
    return device.call("cuLaunchKernel", 0, *[one] * 7, stream, 0, 0)


class TestTime:
    def test_work_takes_its_time_and_nobody_sleeps(self) -> None:
        run(
            "kernel_us=1000000",
            """
            import time
            begin = time.monotonic()
            stream, event = device.made("cuStreamCreate", 1), device.made("cuEventCreate", 0)
            early = device.made("cuEventCreate", 0)
            one = ctypes.c_uint(1)
            device.call("cuEventRecord", early, stream)
            for _ in range(5):
                device.call("cuLaunchKernel", 0, *[one] * 7, stream, 0, 0)
            device.call("cuEventRecord", event, stream)
            assert device.call("cuEventQuery", early) == OK
            assert device.call("cuEventQuery", event) == NOT_READY
            assert device.call("cuStreamQuery", stream) == NOT_READY
            assert device.call("cuStreamQuery", 0) == OK
            assert device.call("cuEventSynchronize", event) == OK
            assert device.call("cuStreamQuery", stream) == OK
            elapsed = ctypes.c_float()
            assert device.call("cuEventElapsedTime", ctypes.byref(elapsed), early, event) == OK
            assert 4999 < elapsed.value < 5001
            assert time.monotonic() - begin < 4
            """,
        )

    def test_polling_makes_time_pass(self) -> None:
        run(
            "kernel_us=50",
            """
            event, one = device.made("cuEventCreate", 0), ctypes.c_uint(1)
            device.call("cuLaunchKernel", 0, *[one] * 7, 0, 0, 0)
            device.call("cuEventRecord", event, 0)
            polls = 0
            while device.call("cuEventQuery", event) == NOT_READY:
                polls += 1
            assert 40 <= polls <= 60
            """,
        )

    def test_a_waiting_stream_is_busy_as_long_as_the_other(self) -> None:
        run(
            "kernel_us=100000",
            """
            first, second = (device.made("cuStreamCreate", 1) for _ in range(2))
            event, one = device.made("cuEventCreate", 0), ctypes.c_uint(1)
            device.call("cuLaunchKernel", 0, *[one] * 7, first, 0, 0)
            device.call("cuEventRecord", event, first)
            assert device.call("cuStreamQuery", second) == OK
            device.call("cuStreamWaitEvent", second, event, 0)
            assert device.call("cuStreamQuery", second) == NOT_READY
            """,
        )

    def test_the_legacy_stream_waits_for_blocking_streams_only(self) -> None:
        run(
            "kernel_us=100000",
            """
            free, blocking = device.made("cuStreamCreate", 1), device.made("cuStreamCreate", 0)
            one = ctypes.c_uint(1)
            device.call("cuLaunchKernel", 0, *[one] * 7, free, 0, 0)
            assert device.call("cuStreamQuery", 0) == OK
            device.call("cuLaunchKernel", 0, *[one] * 7, blocking, 0, 0)
            assert device.call("cuStreamQuery", 0) == NOT_READY
            """,
        )

    def test_handles_that_are_gone(self, device: Device) -> None:
        stream, event = device.made("cuStreamCreate", 0), device.made("cuEventCreate", 0)
        assert device.call("cuEventDestroy_v2", event) == OK
        assert device.call("cuStreamDestroy_v2", stream) == OK
        assert device.call("cuEventQuery", event) == INVALID_HANDLE
        assert device.call("cuEventDestroy_v2", event) == INVALID_HANDLE
        assert device.call("cuStreamSynchronize", stream) == INVALID_HANDLE
        assert kernel(device, stream) == INVALID_HANDLE

    def test_flags_and_priorities_of_streams(self, device: Device) -> None:
        assert device.call("cudaStreamCreateWithFlags", ctypes.byref(ctypes.c_size_t()), 2) == INVALID_VALUE
        priority = ctypes.c_int()
        for wanted, given in ((-99, -5), (-3, -3), (1, 0)):
            stream = device.made("cudaStreamCreateWithPriority", 1, ctypes.c_int(wanted))
            assert device.call("cudaStreamGetPriority", stream, ctypes.byref(priority)) == OK
            assert priority.value == given

    @pytest.mark.parametrize(
        ("grid", "block", "good"),
        [
            ((1, 1, 1), (1024, 1, 1), True),
            ((2**31 - 1, 65535, 65535), (16, 1, 64), True),
            ((0, 1, 1), (1, 1, 1), False),
            ((2**31, 1, 1), (1, 1, 1), False),
            ((1, 65536, 1), (1, 1, 1), False),
            ((1, 1, 65536), (1, 1, 1), False),
            ((1, 1, 1), (1, 0, 1), False),
            ((1, 1, 1), (1025, 1, 1), False),
            ((1, 1, 1), (1, 1, 65), False),
            ((1, 1, 1), (64, 32, 1), False),
        ],
    )
    def test_limits_of_a_launch(
        self, device: Device, grid: tuple[int, ...], block: tuple[int, ...], good: bool
    ) -> None:
        numbers = [ctypes.c_uint(number) for number in (*grid, *block, 0)]
        assert device.call("cuLaunchKernel", 0, *numbers, 0, 0, 0) == (OK if good else INVALID_VALUE)
        dimensions = [Dimensions(*grid), Dimensions(*block)]
        expected = OK if good else INVALID_CONFIGURATION
        assert device.call("cudaLaunchKernel", 0, *dimensions, 0, 0, 0) == expected


class TestCapture:
    def test_captured_work_happens_at_every_launch(self, device: Device, streams: tuple[int, int]) -> None:
        stream, _ = streams
        at = device.made("cuMemAlloc_v2", GRANULE)
        source = device.made("cuMemHostAlloc", 4096, 0)
        ctypes.memmove(source, b"first", 5)
        assert device.call("cudaStreamBeginCapture", stream, RELAXED) == OK
        assert device.call("cudaMemcpyAsync", at, source, 5, 1, stream) == OK
        assert kernel(device, stream) == OK
        graph = ctypes.c_size_t()
        assert device.call("cudaStreamEndCapture", stream, ctypes.byref(graph)) == OK
        assert device.read(at, 5) == bytes(5)  # nothing has run yet
        count = ctypes.c_size_t()
        assert device.call("cudaGraphGetNodes", graph.value, 0, ctypes.byref(count)) == OK
        assert count.value == 2
        executable = device.made("cudaGraphInstantiateWithFlags", graph.value, 0)
        assert device.call("cudaGraphDestroy", graph.value) == OK
        for text in (b"first", b"again"):
            ctypes.memmove(source, text, 5)
            assert device.call("cudaGraphLaunch", executable, stream) == OK
            assert device.read(at, 5) == text
        assert device.call("cudaGraphExecDestroy", executable) == OK
        assert device.call("cuMemFreeHost", source) == OK
        assert device.call("cuMemFree_v2", at) == OK

    def test_a_second_stream_joins_by_events_and_must_come_back(self, device: Device, streams: tuple[int, int]) -> None:
        origin, side = streams
        fork, join = device.made("cuEventCreate", 0), device.made("cuEventCreate", 0)
        for comes_back in (True, False):
            assert device.call("cudaStreamBeginCapture", origin, GLOBAL) == OK
            assert device.call("cuEventRecord", fork, origin) == OK
            assert device.call("cuStreamWaitEvent", side, fork, 0) == OK
            assert kernel(device, side) == OK
            status = ctypes.c_int()
            assert device.call("cudaStreamIsCapturing", side, ctypes.byref(status)) == OK
            assert status.value == 1
            assert device.call("cuEventRecord", join, side) == OK
            if comes_back:
                assert device.call("cuStreamWaitEvent", origin, join, 0) == OK
            graph = ctypes.c_size_t()
            expected = OK if comes_back else CAPTURE_UNJOINED
            assert device.call("cudaStreamEndCapture", origin, ctypes.byref(graph)) == expected
            if comes_back:
                assert device.call("cudaGraphDestroy", graph.value) == OK
            assert device.call("cudaStreamIsCapturing", side, ctypes.byref(status)) == OK
            assert status.value == 0

    @pytest.mark.parametrize("call", ["cuEventQuery", "cuEventSynchronize"])
    def test_asking_for_a_captured_event_spoils_the_capture(
        self, device: Device, streams: tuple[int, int], call: str
    ) -> None:
        event = device.made("cuEventCreate", 0)
        assert device.call("cudaStreamBeginCapture", streams[0], RELAXED) == OK
        assert device.call("cuEventRecord", event, streams[0]) == OK
        assert device.call(call, event) == CAPTURED_EVENT
        assert self.end(device, streams[0]) == CAPTURE_INVALIDATED

    def test_the_device_is_not_waited_for_during_a_capture(self, device: Device, streams: tuple[int, int]) -> None:
        assert device.call("cudaStreamBeginCapture", streams[0], RELAXED) == OK
        assert device.call("cudaDeviceSynchronize") == CAPTURE_UNSUPPORTED
        assert self.end(device, streams[0]) == CAPTURE_INVALIDATED

    def test_captures_do_not_merge(self, device: Device, streams: tuple[int, int]) -> None:
        event = device.made("cuEventCreate", 0)
        for stream in streams:
            assert device.call("cudaStreamBeginCapture", stream, RELAXED) == OK
        assert device.call("cuEventRecord", event, streams[0]) == OK
        assert device.call("cuStreamWaitEvent", streams[1], event, 0) == CAPTURE_MERGE
        assert [self.end(device, stream) for stream in streams] == [CAPTURE_INVALIDATED] * 2

    def test_another_thread_ends_only_a_relaxed_capture(self, device: Device, streams: tuple[int, int]) -> None:
        for mode, code in ((GLOBAL, CAPTURE_WRONG_THREAD), (THREAD_LOCAL, CAPTURE_WRONG_THREAD), (RELAXED, OK)):
            assert device.call("cudaStreamBeginCapture", streams[0], mode) == OK
            results: list[int] = []
            thread = threading.Thread(target=lambda into: into.append(self.end(device, streams[0])), args=(results,))
            thread.start()
            thread.join()
            assert results == [code]
            if code != OK:
                assert self.end(device, streams[0]) == OK

    def test_the_default_stream_is_unusable_while_a_blocking_stream_captures(self, device: Device) -> None:
        blocking, status = device.made("cuStreamCreate", 0), ctypes.byref(ctypes.c_int())
        event, memory = device.made("cuEventCreate", 0), device.made("cuMemAlloc_v2", GRANULE)
        uses = {
            "cuEventRecord": (event, 0),
            "cuStreamWaitEvent": (0, event, 0),
            "cuStreamSynchronize": (0,),
            "cuStreamQuery": (0,),
            "cuMemsetD8Async": (memory, ctypes.c_ubyte(0), 1, 0),
        }
        for call, arguments in uses.items():
            assert device.call("cudaStreamBeginCapture", blocking, RELAXED) == OK
            for ask in ("cuStreamIsCapturing", "cudaStreamIsCapturing"):
                assert device.call(ask, 0, status) == CAPTURE_IMPLICIT
            assert self.end(device, blocking) == OK  # asking spoils nothing
            assert device.call("cuStreamIsCapturing", 0, status) == OK
            assert device.call("cudaStreamBeginCapture", blocking, RELAXED) == OK
            assert device.call(call, *arguments) == CAPTURE_IMPLICIT
            assert self.end(device, blocking) == CAPTURE_INVALIDATED
        assert device.call("cuMemFree_v2", memory) == OK

    def test_the_default_stream_does_not_mind_other_captures(self, device: Device, streams: tuple[int, int]) -> None:
        event = device.made("cuEventCreate", 0)
        assert device.call("cudaStreamBeginCapture", streams[0], RELAXED) == OK
        assert device.call("cuStreamIsCapturing", 0, ctypes.byref(ctypes.c_int())) == OK
        assert device.call("cuEventRecord", event, 0) == OK
        assert self.end(device, streams[0]) == OK

    def end(self, device: Device, stream: int) -> int:
        graph = ctypes.c_size_t()
        status = device.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
        if graph.value:
            assert device.call("cudaGraphDestroy", graph.value) == OK
        return status

    def test_work_from_outside_spoils_a_capture(self, device: Device, streams: tuple[int, int]) -> None:
        origin, other = streams
        event = device.made("cuEventCreate", 0)
        assert device.call("cuEventRecord", event, other) == OK
        assert device.call("cudaStreamBeginCapture", origin, RELAXED) == OK
        assert device.call("cuStreamWaitEvent", origin, event, 0) == CAPTURE_ISOLATION
        assert device.call("cudaStreamEndCapture", origin, ctypes.byref(ctypes.c_size_t())) == CAPTURE_INVALIDATED
        assert device.call("cudaStreamEndCapture", origin, ctypes.byref(ctypes.c_size_t())) == ILLEGAL_STATE

    @pytest.mark.parametrize(
        ("mode", "thread_mode", "elsewhere", "allowed"),
        [
            (GLOBAL, GLOBAL, False, False),
            (GLOBAL, GLOBAL, True, False),
            (GLOBAL, THREAD_LOCAL, True, True),
            (GLOBAL, RELAXED, False, True),
            (THREAD_LOCAL, GLOBAL, True, True),
            (THREAD_LOCAL, THREAD_LOCAL, False, False),
            (RELAXED, GLOBAL, False, True),
        ],
    )
    def test_allocation_during_capture(
        self, device: Device, streams: tuple[int, int], mode: int, thread_mode: int, elsewhere: bool, allowed: bool
    ) -> None:
        def allocate(results: list[int]) -> None:
            wanted = ctypes.c_int(thread_mode)
            device.call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(wanted))
            at = ctypes.c_size_t()
            results.append(device.call("cudaMalloc", ctypes.byref(at), GRANULE))
            device.call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(wanted))
            if at.value:
                wanted = ctypes.c_int(RELAXED)
                device.call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(wanted))
                assert device.call("cudaFree", at.value) == OK
                device.call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(wanted))

        assert device.call("cudaStreamBeginCapture", streams[0], mode) == OK
        results: list[int] = []
        if elsewhere:
            thread = threading.Thread(target=allocate, args=(results,))
            thread.start()
            thread.join()
        else:
            allocate(results)
        assert results == [OK if allowed else CAPTURE_UNSUPPORTED]
        graph = ctypes.c_size_t()
        expected = OK if allowed else CAPTURE_INVALIDATED
        assert device.call("cudaStreamEndCapture", streams[0], ctypes.byref(graph)) == expected
        if graph.value:
            assert device.call("cudaGraphDestroy", graph.value) == OK

    @pytest.mark.parametrize("layer", ["cudaHostAlloc", "cudaHostRegister", "cuMemHostAlloc", "cuMemHostRegister_v2"])
    def test_host_memory_is_not_pinned_during_capture(
        self, device: Device, streams: tuple[int, int], layer: str
    ) -> None:
        buffer = ctypes.create_string_buffer(8)
        assert device.call("cudaStreamBeginCapture", streams[0], GLOBAL) == OK
        assert device.call(layer, buffer, 4096, 0) == CAPTURE_UNSUPPORTED
        assert self.end(device, streams[0]) == CAPTURE_INVALIDATED

    @pytest.mark.parametrize("layer", ["cu", "cuda"])
    def test_events_that_a_graph_records_and_waits_for(self, layer: str) -> None:
        run(
            "kernel_us=1000",
            f"""
            one, graph, external = ctypes.c_uint(1), ctypes.c_size_t(), 1
            stream, other = device.made("cuStreamCreate", 1), device.made("cuStreamCreate", 1)
            before, after = device.made("cuEventCreate", 2), device.made("cuEventCreate", 2)
            assert device.call("{layer}EventRecordWithFlags", after, stream, external) == INVALID_VALUE
            assert device.call("{layer}StreamWaitEvent", stream, before, external) == INVALID_VALUE
            assert device.call("cudaStreamBeginCapture", stream, GLOBAL) == OK
            assert device.call("{layer}StreamWaitEvent", stream, before, external) == OK
            assert device.call("{layer}EventRecordWithFlags", after, stream, external) == OK
            assert device.call("cudaStreamEndCapture", stream, ctypes.byref(graph)) == OK
            assert device.call("cuEventQuery", after) == OK  # nobody has recorded it
            executable = device.made("cudaGraphInstantiateWithFlags", graph.value, 0)
            device.call("cuLaunchKernel", 0, *[one] * 7, other, 0, 0)
            device.call("cuEventRecord", before, other)
            assert device.call("cudaGraphLaunch", executable, stream) == OK
            assert device.call("cuEventQuery", after) == NOT_READY
            assert device.call("cuEventSynchronize", after) == OK
            assert device.call("cuEventQuery", before) == OK
            """,
        )

    def test_what_a_graph_retains_lives_as_long(self, device: Device, streams: tuple[int, int]) -> None:
        gone: list[int] = []
        destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gone.append(1))
        assert device.call("cudaStreamBeginCapture", streams[0], RELAXED) == OK
        graph = ctypes.c_size_t()
        assert device.call("cudaStreamEndCapture", streams[0], ctypes.byref(graph)) == OK
        user_object = device.made("cudaUserObjectCreate", 0, destroy, 1, 1)
        assert device.call("cudaGraphRetainUserObject", graph.value, user_object, 1, 1) == OK
        executable = device.made("cudaGraphInstantiateWithFlags", graph.value, 0)
        assert device.call("cudaGraphDestroy", graph.value) == OK
        assert gone == []
        assert device.call("cudaGraphExecDestroy", executable) == OK
        assert gone == [1]


class TestHazards:
    def fill(self, device: Device, at: int, stream: int) -> None:
        assert device.call("cuMemsetD8Async", at, ctypes.c_ubyte(1), 1024, stream) == OK

    def touch(
        self, device: Device, at: int, stream: int, *, write: bool = False, number: int = 0, enqueued: bool = False
    ) -> None:
        device.call("gmlake_device_touch", at, 1024, number, stream, int(write), int(enqueued))

    def found(self, device: Device) -> int:
        return device.call("gmlake_device_hazards")

    def test_two_streams_that_nothing_orders(self, device: Device, streams: tuple[int, int]) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        before = self.found(device)
        self.fill(device, at, streams[0])
        self.fill(device, at + 1024, streams[1])  # other bytes
        assert self.found(device) == before
        self.fill(device, at + 512, streams[1])
        assert self.found(device) == before + 1
        assert device.call("cuMemFree_v2", at) == OK

    def test_an_event_a_synchronisation_and_a_query_order(self, device: Device, streams: tuple[int, int]) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        event = device.made("cuEventCreate", 0)
        before = self.found(device)
        self.fill(device, at, streams[0])
        device.call("cuEventRecord", event, streams[0])
        device.call("cuStreamWaitEvent", streams[1], event, 0)
        self.fill(device, at, streams[1])
        device.call("cuStreamSynchronize", streams[1])
        self.fill(device, at, streams[0])
        device.call("cuEventRecord", event, streams[0])
        assert device.call("cuEventQuery", event) == OK
        self.fill(device, at, streams[1])
        assert self.found(device) == before
        device.call("cuCtxSynchronize")
        assert device.call("cuMemFree_v2", at) == OK

    def test_readers_may_meet_readers_but_no_writer(self, device: Device, streams: tuple[int, int]) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        device.call("cuCtxSynchronize")
        before = self.found(device)
        for stream in streams:
            self.touch(device, at, stream)
        assert self.found(device) == before
        self.touch(device, at + 1000, streams[0], write=True)
        assert self.found(device) == before + 1
        assert device.call("cuMemFree_v2", at) == OK

    def test_a_default_stream_is_that_of_the_device_that_is_told(self, device: Device) -> None:
        """Whichever is current."""
        at = device.made("cuMemAlloc_v2", GRANULE)
        before = self.found(device)
        self.touch(device, at, 0, write=True, number=1)
        assert device.call("cudaSetDevice", 1) == OK
        self.touch(device, at, 0, write=True, number=1)
        self.fill(device, at, 0)
        assert self.found(device) == before
        self.touch(device, at, 0, number=0)
        assert self.found(device) == before + 1
        for number in (1, 0):
            assert device.call("cudaSetDevice", number) == OK
            assert device.call("cuCtxSynchronize") == OK
        assert device.call("cuMemFree_v2", at) == OK

    @pytest.mark.parametrize("enqueued", [True, False])
    def test_an_event_covers_what_was_enqueued_before(
        self, device: Device, streams: tuple[int, int], enqueued: bool
    ) -> None:
        at, event = device.made("cuMemAlloc_v2", GRANULE), device.made("cuEventCreate", 0)
        before = self.found(device)
        assert kernel(device, streams[0]) == OK
        device.call("cuEventRecord", event, streams[0])
        device.call("cuStreamWaitEvent", streams[1], event, 0)
        self.touch(device, at, streams[0], write=True, enqueued=enqueued)  # told of only now
        self.fill(device, at, streams[1])
        assert self.found(device) == before + (not enqueued)
        device.call("cuCtxSynchronize")
        assert device.call("cuMemFree_v2", at) == OK

    def test_a_copy_that_the_host_waited_for(self, device: Device, streams: tuple[int, int]) -> None:
        at = device.made("cuMemAlloc_v2", GRANULE)
        before = self.found(device)
        assert device.write(at, b"text") == OK
        self.fill(device, at, streams[0])
        assert self.found(device) == before
        device.call("cuCtxSynchronize")
        assert device.call("cuMemFree_v2", at) == OK

    def test_the_same_memory_under_two_addresses(self, device: Device, streams: tuple[int, int]) -> None:
        _, handle = device.create(GRANULE)
        places = [device.made("cuMemAddressReserve", GRANULE, 0, 0, 0) for _ in range(2)]
        for at in places:
            assert device.call("cuMemMap", at, GRANULE, 0, handle, 0) == OK
            assert device.set_access(at, GRANULE) == OK
        before = self.found(device)
        for at, stream in zip(places, streams, strict=True):
            self.fill(device, at, stream)
        assert self.found(device) == before + 1
        for at in places:
            assert device.call("cuMemUnmap", at, GRANULE) == OK
            assert device.call("cuMemAddressFree", at, GRANULE) == OK
        assert device.call("cuMemRelease", handle) == OK


def test_leaks_are_reported_at_exit() -> None:
    head = "from tests.emulator.device import *\ndevice = Device('leaks=1')\n"
    for program, expected in (
        (
            "device.made('cuMemAlloc_v2', GRANULE)",
            "left at exit: 0 handles, 0 address ranges, 0 mappings, 1 allocation",
        ),
        ("device.call('cuMemFree_v2', device.made('cuMemAlloc_v2', GRANULE))", ""),
    ):
        done = subprocess.run([sys.executable, "-c", head + program], capture_output=True, text=True, check=True)
        assert expected in done.stderr
        assert bool(done.stderr) == bool(expected)


def test_a_configuration_with_a_mistake_ends_the_process() -> None:
    head = "from tests.emulator.device import *\nDevice('memroy=1')\n"
    done = subprocess.run([sys.executable, "-c", head], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "gmlake device: GMLAKE_DEVICE: 'memroy=1' has an unknown key\n")
