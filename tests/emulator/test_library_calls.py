"""The hand-written parts of NVIDIA's libraries, called through their C interface: what they hand back."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from tests.emulator.device import Device

NOT_INITIALIZED, INVALID_VALUE, BAD_PARAMETER = 1, 7, 2000


@pytest.fixture
def device(machine: Device) -> ctypes.CDLL:
    """The device's library, with the symbols of all others in it. A process has only one machine."""
    return machine.library


def made(function: object) -> c_void_p:
    """The handle that a creating function hands back."""
    handle = c_void_p()
    assert function(byref(handle)) == 0  # type: ignore[operator]
    assert handle.value
    return handle


class TestBlas:
    def test_state_of_a_handle(self, device: ctypes.CDLL) -> None:
        handle = made(device.cublasCreate_v2)
        mode, stream = c_int(9), c_void_p()
        assert device.cublasGetPointerMode_v2(handle, byref(mode)) == 0
        assert mode.value == 0
        assert device.cublasSetPointerMode_v2(handle, 1) == 0
        assert device.cublasGetPointerMode_v2(handle, byref(mode)) == 0
        assert mode.value == 1
        assert device.cublasSetStream_v2(handle, c_void_p(0x1234)) == 0
        assert device.cublasGetStream_v2(handle, byref(stream)) == 0
        assert stream.value == 0x1234
        assert device.cublasDestroy_v2(handle) == 0

    def test_no_handle(self, device: ctypes.CDLL) -> None:
        assert device.cublasCreate_v2(None) == INVALID_VALUE
        assert device.cublasSetStream_v2(None, None) == NOT_INITIALIZED
        assert device.cublasDestroy_v2(None) == NOT_INITIALIZED

    def test_results_in_host_memory_are_zero(self, device: ctypes.CDLL) -> None:
        handle = made(device.cublasCreate_v2)
        result = c_float(3)
        assert device.cublasSdot_v2(handle, 4, None, 1, None, 1, byref(result)) == 0
        assert result.value == 0
        result.value = 3
        assert device.cublasSetPointerMode_v2(handle, 1) == 0
        assert device.cublasSdot_v2(handle, 4, None, 1, None, 1, byref(result)) == 0
        assert result.value == 3, "in this mode the address is the device's"

    def test_matrices_are_copied_column_by_column(self, device: ctypes.CDLL) -> None:
        source = (c_int * 6)(1, 2, 3, 4, 5, 6)
        target = (c_int * 4)()
        assert device.cublasSetMatrixAsync(2, 2, 4, source, 3, target, 2, None) == 0
        assert list(target) == [1, 2, 4, 5]
        strided = (c_int * 3)()
        assert device.cublasGetVectorAsync(3, 4, source, 2, strided, 1, None) == 0
        assert list(strided) == [1, 3, 5]

    def test_one_algorithm_without_workspace(self, device: ctypes.CDLL) -> None:
        choice = (c_uint64 * 16)(*[7] * 16)
        count = c_int()
        nothing = [None] * 7
        assert device.cublasLtMatmulAlgoGetHeuristic(*nothing, 4, choice, byref(count)) == 0
        assert count.value == 1
        assert choice[8] == 0, "the size of the workspace"
        assert choice[12] == 7, "not beyond the one"
        assert device.cublasLtMatmulAlgoGetHeuristic(*nothing, 0, choice, byref(count)) == INVALID_VALUE


class TestRuntimeCompilation:
    def test_a_program(self, device: ctypes.CDLL) -> None:
        program, name, size = c_void_p(), c_char_p(), c_size_t()
        assert device.nvrtcCreateProgram(byref(program), b"source", b"name", 0, None, None) == 0
        assert device.nvrtcAddNameExpression(program, b"kernel<float>") == 0
        assert device.nvrtcCompileProgram(program, 0, None) == 0
        assert device.nvrtcGetLoweredName(program, b"kernel<float>", byref(name)) == 0
        assert name.value == b"kernel_float_"
        assert device.nvrtcGetLoweredName(program, b"other", byref(name)) != 0
        assert device.nvrtcGetPTXSize(program, byref(size)) == 0
        image = ctypes.create_string_buffer(size.value)
        assert device.nvrtcGetPTX(program, image) == 0
        assert len(image.value) == size.value - 1
        assert device.nvrtcDestroyProgram(byref(program)) == 0
        assert not program.value


class TestSparse:
    def test_sizes(self, device: ctypes.CDLL) -> None:
        matrix, size = c_void_p(), [c_int64(), c_int64(), c_int64()]
        numbers = [c_int64(3), c_int64(4), c_int64(5)]
        assert device.cusparseCreateCsr(byref(matrix), *numbers, None, None, None, 0, 0, 0, 0) == 0
        assert device.cusparseSpMatGetSize(matrix, *map(byref, size)) == 0
        assert [value.value for value in size] == [3, 4, 5]
        assert device.cusparseDestroySpMat(matrix) == 0


class TestProfiler:
    def test_nothing_happened(self, device: ctypes.CDLL) -> None:
        record = c_void_p(1)
        assert device.cuptiActivityGetNextRecord(None, c_size_t(0), byref(record)) == 12
        assert not record.value

    def test_correlations_are_a_stack(self, device: ctypes.CDLL) -> None:
        last = c_uint64()
        assert device.cuptiActivityPushExternalCorrelationId(1, c_uint64(5)) == 0
        assert device.cuptiActivityPushExternalCorrelationId(1, c_uint64(6)) == 0
        assert device.cuptiActivityPopExternalCorrelationId(1, byref(last)) == 0
        assert last.value == 6
        assert device.cuptiActivityPopExternalCorrelationId(1, None) == 0
        assert device.cuptiActivityPopExternalCorrelationId(1, byref(last)) != 0


class TestGraphs:
    HANDLE, INT64, DESCRIPTOR = 0, 3, 15

    def descriptor(self, device: ctypes.CDLL, kind: int) -> c_void_p:
        descriptor = c_void_p()
        assert device.cudnnBackendCreateDescriptor(kind, byref(descriptor)) == 0
        return descriptor

    def test_what_was_set_is_given_back(self, device: ctypes.CDLL) -> None:
        tensor = self.descriptor(device, 17)
        sizes, count, answer = (c_int64 * 3)(2, 3, 4), c_int64(), (c_int64 * 3)()
        assert device.cudnnBackendSetAttribute(tensor, 902, self.INT64, c_int64(3), sizes) == 0
        assert device.cudnnBackendGetAttribute(tensor, 902, self.INT64, c_int64(0), byref(count), None) == 0
        assert count.value == 3
        assert device.cudnnBackendGetAttribute(tensor, 902, self.INT64, c_int64(2), byref(count), answer) == 0
        assert list(answer) == [2, 3, 0]
        assert device.cudnnBackendFinalize(tensor) == 0
        assert device.cudnnBackendSetAttribute(tensor, 902, self.INT64, c_int64(3), sizes) == BAD_PARAMETER

    def test_every_graph_has_one_engine(self, device: ctypes.CDLL) -> None:
        graph, heuristics = self.descriptor(device, 15), self.descriptor(device, 4)
        configuration, engine, count, index = (
            self.descriptor(device, 3),
            self.descriptor(device, 2),
            c_int64(),
            c_int64(9),
        )
        one = c_int64(1)
        assert device.cudnnBackendSetAttribute(heuristics, 201, self.DESCRIPTOR, one, byref(graph)) == 0
        assert device.cudnnBackendDestroyDescriptor(graph) == 0
        assert device.cudnnBackendGetAttribute(heuristics, 202, self.DESCRIPTOR, c_int64(0), byref(count), None) == 0
        assert count.value == 1
        result = device.cudnnBackendGetAttribute(heuristics, 202, self.DESCRIPTOR, one, None, byref(configuration))
        assert result == 0
        assert device.cudnnBackendGetAttribute(configuration, 300, self.DESCRIPTOR, one, None, byref(engine)) == 0
        assert device.cudnnBackendGetAttribute(engine, 1301, self.INT64, one, None, byref(index)) == 0
        assert index.value == 0

    def test_plans_must_be_finished(self, device: ctypes.CDLL) -> None:
        handle, plan, pack = made(device.cudnnCreate), self.descriptor(device, 5), self.descriptor(device, 16)
        configuration, size = self.descriptor(device, 3), c_int64(9)
        assert device.cudnnBackendExecute(handle, plan, pack) == BAD_PARAMETER
        result = device.cudnnBackendSetAttribute(plan, 401, self.DESCRIPTOR, c_int64(1), byref(configuration))
        assert result == 0
        assert device.cudnnBackendFinalize(plan) == 0
        assert device.cudnnBackendGetAttribute(plan, 402, self.INT64, c_int64(1), None, byref(size)) == 0
        assert size.value == 0
        assert device.cudnnBackendExecute(handle, plan, pack) == 0


class TestRecurrentNetworks:
    @pytest.mark.parametrize(
        ("cell", "gates", "directions", "projection"), [(2, 4, 1, 20), (2, 4, 2, 5), (3, 3, 2, 20), (0, 1, 1, 20)]
    )
    def test_weights_are_disjoint_and_fill_the_buffer(
        self, device: ctypes.CDLL, cell: int, gates: int, directions: int, projection: int
    ) -> None:
        network = made(device.cudnnCreateRNNDescriptor)
        sizes = [c_int32(10), c_int32(20), c_int32(projection), c_int32(2)]
        assert (
            device.cudnnSetRNNDescriptor_v8(network, 0, cell, 2, directions - 1, 0, 0, 0, 0, *sizes, None, c_uint32())
            == 0
        )
        size = c_size_t()
        assert device.cudnnGetRNNWeightSpaceSize(None, network, byref(size)) == 0
        pieces = []
        tensors = [made(device.cudnnCreateTensorDescriptor) for _ in range(2)]
        for layer in range(2 * directions):
            for number in range(2 * gates + 1):
                addresses = [c_void_p(), c_void_p()]
                arguments = [tensors[0], byref(addresses[0]), tensors[1], byref(addresses[1])]
                result = device.cudnnGetRNNWeightParams(None, network, layer, size, c_void_p(4096), number, *arguments)
                assert result == 0
                for tensor, address in zip(tensors, addresses, strict=True):
                    if address.value:
                        pieces.append((address.value - 4096, 4 * self.elements(device, tensor)))
        at = 0
        for start, length in sorted(pieces):
            assert start == at
            at += length
        assert at == size.value

    def elements(self, device: ctypes.CDLL, tensor: c_void_p) -> int:
        kind, rank, sizes, strides = c_int(), c_int(), (c_int * 3)(), (c_int * 3)()
        assert device.cudnnGetTensorNdDescriptor(tensor, 3, byref(kind), byref(rank), sizes, strides) == 0
        assert rank.value == 3
        return sizes[0] * sizes[1] * sizes[2]
