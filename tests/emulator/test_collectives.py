"""NCCL's functions on the emulated device within one process: it stands for a rank of many, or has several devices."""

from __future__ import annotations

import pytest

from tests.emulator.nccl import run_one

SOLO = "world_size=4;rank=1"


class TestOneOfMany:
    """Four ranks that hold the same; this process is rank 1."""

    @pytest.mark.parametrize("type", ["INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT32", "FLOAT64"])
    def test_reductions(self, type: str) -> None:
        run_one(
            SOLO,
            f"""
            comm, values = nccl.join(4, 1), np.array([0, 1, 2, 3], TYPES[{type}])
            for operation, expected in [
                (SUM, values * 4), (PRODUCT, values**4), (MAXIMUM, values), (MINIMUM, values), (AVERAGE, values)
            ]:
                source, target = nccl.put(values), nccl.zeros(4, {type})
                assert nccl.call("ncclAllReduce", source, target, 4, {type}, operation, comm, 0) == OK
                assert target.values() == expected.tolist(), (operation, target.values())
                assert source.values() == values.tolist()
                assert nccl.call("ncclAllReduce", source, source, 4, {type}, operation, comm, 0) == OK
                assert source.values() == expected.tolist()
            """,
        )

    def test_whole_numbers_wrap_around(self) -> None:
        run_one(
            SOLO,
            """
            comm = nccl.join(4, 1)
            for type, value in [(INT8, 100), (INT64, 2**62 + 5), (UINT64, 2**63 + 1), (INT32, -(2**30) - 1)]:
                buffer = nccl.put(np.array([value], TYPES[type]))
                assert nccl.call("ncclAllReduce", buffer, buffer, 1, type, SUM, comm, 0) == OK
                expected = np.array([value], TYPES[type])
                with np.errstate(over="ignore"):
                    assert buffer.values() == (expected + expected + expected + expected).tolist()
            """,
        )

    def test_half_precision_rounds_to_the_nearest_even(self) -> None:
        run_one(
            "world_size=3;rank=0",
            """
            comm = nccl.join(3, 0)
            every = np.arange(65536, dtype=np.uint32).astype(np.uint16)
            for half in np.array_split(every.view(np.float16), 4):
                buffer = nccl.put(half)
                assert nccl.call("ncclAllReduce", buffer, buffer, len(half), FLOAT16, SUM, comm, 0) == OK
                with np.errstate(all="ignore"):
                    expected = (half.astype(np.float32) * np.float32(3)).astype(np.float16)
                assert np.array_equal(np.array(buffer.values(), np.float16), expected, equal_nan=True)
            for bits in np.array_split(every, 4):
                buffer = nccl.put(bits)
                assert nccl.call("ncclAllReduce", buffer, buffer, len(bits), BFLOAT16, SUM, comm, 0) == OK
                with np.errstate(all="ignore"):
                    exact = (bits.astype(np.uint32) << 16).view(np.float32) * np.float32(3)
                found = (np.array(buffer.values(), np.uint32) << 16).view(np.float32)
                raw = exact.view(np.uint32).astype(np.uint64)
                rounded = (((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
                assert np.array_equal(np.isnan(found), np.isnan(exact))
                assert np.array_equal(found[~np.isnan(exact)], rounded[~np.isnan(exact)])
            """,
        )

    def test_eight_bits(self) -> None:
        """Against tables of the formats, made here from their definition."""
        run_one(
            "world_size=2;rank=0",
            """
            def table(exponent, mantissa, bias, infinite):
                numbers = []
                for bits in range(128):
                    e, m = bits >> mantissa, bits & (2**mantissa - 1)
                    value = (m if e == 0 else 2**mantissa + m) * 2.0 ** (max(e, 1) - bias - mantissa)
                    special = e == 2**exponent - 1 and (infinite or m == 2**mantissa - 1)
                    numbers.append(value if not special else float("inf") if infinite and m == 0 else float("nan"))
                return np.array(numbers)

            comm = nccl.join(2, 0)
            formats = [(E4M3, table(4, 3, 7, False), 448.0), (E5M2, table(5, 2, 15, True), 57344.0)]
            for type, numbers, top in formats:
                buffer = nccl.put(np.arange(128, dtype=np.uint8))
                assert nccl.call("ncclAllReduce", buffer, buffer, 128, type, SUM, comm, 0) == OK
                for number, bits in zip(numbers, buffer.values()):
                    found = numbers[bits]
                    if np.isnan(number):
                        assert np.isnan(found)
                    else:
                        assert found == min(2 * number, top), (number, found)  # twice a number is exact
            """,
        )

    def test_a_reduction_with_a_factor(self) -> None:
        run_one(
            SOLO,
            """
            comm, factor = nccl.join(4, 1), ctypes.c_float(0.25)
            operation = nccl.scaled_sum(ctypes.byref(factor), FLOAT32, HOST, comm)
            factor.value = 99  # it was read
            buffer = nccl.put(np.array([1, 2, 6], np.float32))
            assert nccl.call("ncclAllReduce", buffer, buffer, 3, FLOAT32, operation, comm, 0) == OK
            assert buffer.values() == [1, 2, 6]
            assert nccl.call("ncclAllReduce", buffer, buffer, 3, FLOAT64, operation, comm, 0) == INVALID_ARGUMENT
            on_device = nccl.put(np.array([2], np.float32))
            later = nccl.scaled_sum(on_device, FLOAT32, DEVICE, comm)
            assert later != operation
            assert nccl.call("ncclAllReduce", buffer, buffer, 3, FLOAT32, later, comm, 0) == OK
            assert buffer.values() == [8, 16, 48]
            assert nccl.call("ncclRedOpDestroy", operation, comm) == OK
            assert nccl.call("ncclRedOpDestroy", operation, comm) == INVALID_ARGUMENT
            """,
        )

    def test_gathers_and_scatters(self) -> None:
        run_one(
            SOLO,
            """
            comm, eight = nccl.join(4, 1), np.arange(8, dtype=np.int32)
            two, all = nccl.put(eight[:2] + 5), nccl.zeros(8, INT32)
            assert nccl.call("ncclAllGather", two, all, 2, INT32, comm, 0) == OK
            assert all.values() == [5, 6] * 4
            assert nccl.call("ncclAllGather", all + 2, all, 2, INT32, comm, 0) == OK  # in place
            assert all.values() == [5, 6] * 4
            source, part = nccl.put(eight), nccl.zeros(2, INT32)
            assert nccl.call("ncclReduceScatter", source, part, 2, INT32, SUM, comm, 0) == OK
            assert part.values() == [8, 12]
            assert nccl.call("ncclAlltoAll", source, all, 2, INT32, comm, 0) == OK
            assert all.values() == [2, 3] * 4
            target = nccl.zeros(8, INT32)
            assert nccl.call("ncclGather", two, target, 2, INT32, 0, comm, 0) == OK
            assert target.values() == [0] * 8  # rank 0 got it
            assert nccl.call("ncclGather", two, target, 2, INT32, 1, comm, 0) == OK
            assert target.values() == [5, 6] * 4
            assert nccl.call("ncclScatter", source, part, 2, INT32, 1, comm, 0) == OK
            assert part.values() == [2, 3]
            assert nccl.call("ncclScatter", 0, part, 2, INT32, 0, comm, 0) == OK
            assert part.values() == [2, 3]  # nobody knows what rank 0 would send
            for root in range(4):
                assert nccl.call("ncclBcast", source, 8, INT32, root, comm, 0) == OK
            assert source.values() == eight.tolist()
            assert nccl.call("ncclBroadcast", source, all, 8, INT32, 1, comm, 0) == OK
            assert all.values() == eight.tolist()
            assert nccl.call("ncclReduce", source, 0, 8, INT32, SUM, 0, comm, 0) == OK
            assert nccl.call("ncclReduce", source, all, 8, INT32, SUM, 1, comm, 0) == OK
            assert all.values() == (eight * 4).tolist()
            """,
        )

    def test_sends_and_receives(self) -> None:
        run_one(
            SOLO,
            """
            comm, source, target = nccl.join(4, 1), nccl.put(np.arange(8, dtype=np.int32)), nccl.zeros(8, INT32)
            # A ring: what the left neighbour sends is what we send to the right one.
            assert nccl.call("ncclSend", source, 4, INT32, 2, comm, 0) == OK
            assert nccl.call("ncclRecv", target, 4, INT32, 0, comm, 0) == OK
            assert target.values() == [0, 1, 2, 3, 0, 0, 0, 0]
            # Each to each: everybody sends us what we send to ourselves.
            for _ in range(3):
                assert nccl.call("ncclGroupStart") == OK
                for peer in range(4):
                    assert nccl.call("ncclRecv", target + 2 * peer, 2, INT32, peer, comm, 0) == OK
                    assert nccl.call("ncclSend", source + 2 * peer, 2, INT32, peer, comm, 0) == OK
                assert nccl.call("ncclGroupEnd") == OK
                assert target.values() == [2, 3] * 4
            # Nothing is left over, and without a send nothing changes.
            other = nccl.zeros(2, INT32)
            assert nccl.call("ncclRecv", other, 2, INT32, 0, comm, 0) == OK
            assert other.values() == [0, 0]
            """,
        )

    def test_beyond_the_data_limit_only_buffers_are_checked(self) -> None:
        run_one(
            SOLO + ";memory=1073741824",
            """
            comm = nccl.join(4, 1)
            large = nccl.device.made("cuMemAlloc_v2", 256 << 20)
            nccl.device.write(large, b"x" * 64)
            assert nccl.call("ncclAllReduce", large, large, 64 << 20, FLOAT32, SUM, comm, 0) == OK
            assert nccl.call("ncclAllGather", large, large, 16 << 20, FLOAT32, comm, 0) == OK
            assert nccl.call("ncclAllGather", large, large, 17 << 20, FLOAT32, comm, 0) == INVALID_ARGUMENT
            assert b"without access" in nccl.library.ncclGetLastError(0)
            assert nccl.call("ncclSend", large, 64 << 20, FLOAT32, 0, comm, 0) == OK
            assert nccl.call("ncclRecv", large, 64 << 20, FLOAT32, 0, comm, 0) == OK
            assert nccl.device.read(large, 64) == b"x" * 64
            """,
        )

    def test_a_split_is_as_large_as_announced(self) -> None:
        run_one(
            SOLO,
            """
            comm = nccl.join(4, 1)
            nccl.library.gmlake_device_collective_group(2, 1)
            assert nccl.made("ncclCommSplit", comm, -1, 0) == 0  # another group's split, which this rank is not in
            part = nccl.made("ncclCommSplit", comm, 7, 0)
            assert (nccl.asked("ncclCommCount", part), nccl.asked("ncclCommUserRank", part)) == (2, 1)
            buffer = nccl.put(np.array([3], np.int32))
            assert nccl.call("ncclAllReduce", buffer, buffer, 1, INT32, SUM, part, 0) == OK
            assert buffer.values() == [6]
            same = nccl.made("ncclCommSplit", comm, 7, 0)
            assert (nccl.asked("ncclCommCount", same), nccl.asked("ncclCommUserRank", same)) == (4, 1)
            out, without = ctypes.c_size_t(), (ctypes.c_int * 2)(0, 3)
            assert nccl.call("ncclCommShrink", comm, without, ctypes.c_int(2), ctypes.byref(out), 0, 0) == OK
            assert (nccl.asked("ncclCommCount", out.value), nccl.asked("ncclCommUserRank", out.value)) == (2, 0)
            """,
        )

    def test_work_takes_time_and_can_be_captured(self) -> None:
        run_one(
            SOLO + ";gigabytes_per_second=1",
            """
            comm, device = nccl.join(4, 1), nccl.device
            stream = device.made("cuStreamCreate", 1)
            buffer = nccl.put(np.ones(1000, np.float32))
            events = [device.made("cuEventCreate", 0) for _ in range(2)]
            device.call("cuEventRecord", events[0], stream)
            assert nccl.call("ncclAllReduce", buffer, buffer, 1000, FLOAT32, SUM, comm, stream) == OK
            device.call("cuEventRecord", events[1], stream)
            assert device.call("cuStreamQuery", stream) == 600
            assert device.call("cuStreamSynchronize", stream) == OK
            elapsed = ctypes.c_float()
            assert device.call("cuEventElapsedTime", ctypes.byref(elapsed), *events) == OK
            assert 0.004 <= elapsed.value < 0.01, elapsed.value
            assert device.call("cuStreamBeginCapture_v2", stream, 0) == OK
            assert nccl.call("ncclAllReduce", buffer, buffer, 1000, FLOAT32, SUM, comm, stream) == OK
            graph = ctypes.c_size_t()
            assert device.call("cuStreamEndCapture", stream, ctypes.byref(graph)) == OK
            assert buffer.values()[:2] == [4, 4]
            run = device.made("cudaGraphInstantiateWithFlags", graph.value, 0)
            for expected in (16, 64):
                assert device.call("cudaGraphLaunch", run, stream) == OK
                assert device.call("cuStreamSynchronize", stream) == OK
                assert buffer.values()[:2] == [expected, expected]
            """,
        )

    def test_mistakes(self) -> None:
        said = run_one(
            SOLO,
            """
            comm, buffer = nccl.join(4, 1), nccl.zeros(4, INT32)
            call = nccl.call
            assert call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm + 64, 0) == INVALID_ARGUMENT
            assert call("ncclAllReduce", buffer, buffer, 4, 12, SUM, comm, 0) == INVALID_ARGUMENT
            assert call("ncclAllReduce", buffer, buffer, 4, INT32, 5, comm, 0) == INVALID_ARGUMENT
            assert call("ncclAllReduce", 0, buffer, 4, INT32, SUM, comm, 0) == INVALID_ARGUMENT
            assert call("ncclBroadcast", buffer, buffer, 4, INT32, 4, comm, 0) == INVALID_ARGUMENT
            assert call("ncclSend", buffer, 4, INT32, -1, comm, 0) == INVALID_ARGUMENT
            assert call("ncclGroupEnd") == INVALID_USAGE
            garbage = (ctypes.c_char * 128)()
            assert nccl.library.ncclCommInitRankConfig(ctypes.byref(ctypes.c_size_t()), 4, UniqueId(), 1, garbage) == 4
            assert call("ncclCommWindowRegister", comm, buffer, 16, 0, 0) == INVALID_USAGE
            assert call("ncclCommDestroy", comm) == OK
            assert call("ncclCommDestroy", comm) == INVALID_ARGUMENT
            assert call("ncclAllReduce", buffer, buffer, 4, INT32, SUM, comm, 0) == INVALID_ARGUMENT
            """,
        )
        assert "ncclCommWindowRegister is not emulated" in said

    def test_what_a_communicator_tells(self) -> None:
        run_one(
            SOLO,
            """
            comm, value = nccl.join(4, 1), ctypes.c_uint64(9)
            assert nccl.asked("ncclCommCount", comm) == 4
            assert nccl.asked("ncclCommUserRank", comm) == 1
            assert nccl.asked("ncclCommCuDevice", comm) == 0
            assert nccl.asked("ncclCommGetAsyncError", comm) == 0
            for statistic, expected in [(0, 0), (1, 0), (2, 0), (3, 0)]:
                assert nccl.call("ncclCommMemStats", comm, statistic, ctypes.byref(value)) == OK
                assert value.value == expected
            assert nccl.call("ncclCommMemStats", comm, 4, ctypes.byref(value)) == INVALID_ARGUMENT
            assert nccl.call("ncclCommSuspend", comm, 1) == OK
            assert nccl.call("ncclCommMemStats", comm, 1, ctypes.byref(value)) == OK and value.value == 1
            assert nccl.call("ncclCommResume", comm) == OK
            memory, handle = nccl.device.made("ncclMemAlloc", 1000), ctypes.c_size_t()
            assert nccl.device.used() == 2 << 20
            assert nccl.call("ncclCommRegister", comm, memory, 1000, ctypes.byref(handle)) == OK
            assert nccl.call("ncclCommDeregister", comm, handle.value) == OK
            assert nccl.call("ncclMemFree", memory) == OK
            assert nccl.device.used() == 0
            """,
        )


def test_devices_of_one_process() -> None:
    run_one(
        "count=3",
        """
        handles = (ctypes.c_size_t * 3)()
        assert nccl.library.ncclCommInitAll(handles, 3, None) == OK
        values = [np.arange(6, dtype=np.float32) + 10 * rank for rank in range(3)]
        sources = [nccl.put(value) for value in values]

        def grouped(name, *arguments):
            assert nccl.call("ncclGroupStart") == OK
            for rank, comm in enumerate(handles):
                assert nccl.call("cudaSetDevice", rank) == OK
                each = [a[rank] if isinstance(a, list) else a for a in arguments]
                assert nccl.call(name, *each, comm, 0) == OK
            assert nccl.call("ncclGroupEnd") == OK

        targets = [nccl.zeros(18, FLOAT32) for _ in range(3)]
        grouped("ncclAllReduce", sources, targets, 6, FLOAT32, SUM)
        assert all(target.values()[:6] == sum(values).tolist() for target in targets)
        grouped("ncclAllGather", sources, targets, 6, FLOAT32)
        assert all(target.values() == np.concatenate(values).tolist() for target in targets)
        grouped("ncclReduceScatter", sources, targets, 2, FLOAT32, AVERAGE)
        assert [target.values()[:2] for target in targets] == (sum(values) / 3).reshape(3, 2).tolist()
        grouped("ncclBroadcast", sources, targets, 6, FLOAT32, 2)
        assert all(target.values()[:6] == values[2].tolist() for target in targets)
        assert nccl.call("ncclGroupStart") == OK
        assert nccl.call("ncclRecv", targets[0], 6, FLOAT32, 1, handles[0], 0) == OK
        assert nccl.call("ncclSend", sources[1], 6, FLOAT32, 0, handles[1], 0) == OK
        assert nccl.call("ncclGroupEnd") == OK
        assert targets[0].values()[:6] == values[1].tolist()
        """,
    )


def test_the_default_streams_of_a_group_are_those_of_its_devices() -> None:
    """Whichever is current when the group ends."""
    run_one(
        "count=2;hazards=1",
        """
        handles = (ctypes.c_size_t * 2)()
        assert nccl.library.ncclCommInitAll(handles, 2, None) == OK
        buffers = [nccl.put(np.ones(6, np.float32)) for _ in range(2)]

        def reduce(*streams):
            assert nccl.call("ncclGroupStart") == OK
            for buffer, comm, stream in zip(buffers, handles, streams):
                assert nccl.call("ncclAllReduce", buffer, buffer, 6, FLOAT32, SUM, comm, stream) == OK
            assert nccl.call("ncclGroupEnd") == OK

        for current in (0, 1):
            assert nccl.call("cudaSetDevice", current) == OK
            reduce(0, 0)
        assert nccl.call("gmlake_device_hazards") == 0
        reduce(0, nccl.device.made("cudaStreamCreateWithFlags", 1))
        assert nccl.call("gmlake_device_hazards") > 0
        """,
    )
