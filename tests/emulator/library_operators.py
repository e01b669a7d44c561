"""Runs operators that use NVIDIA's libraries; writes a JSON file with what went wrong, by name. See its test."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

outcome: dict[str, str] = {}
warnings.simplefilter("ignore")


def run(name: str, operator: Callable[[], Any]) -> None:
    """Run, wait, note."""
    try:
        operator()
        torch.cuda.synchronize()
        outcome[name] = ""
    except Exception as error:
        outcome[name] = f"{type(error).__name__}: {error}"


def random(*shape: int, dtype: torch.dtype = torch.float32, gradient: bool = False) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=gradient)


def trained(module: nn.Module, inputs: torch.Tensor) -> None:
    """Forward and backward; every parameter and the input must get a gradient."""
    result = module(inputs)
    result = result[0] if isinstance(result, tuple) else result
    result.sum().backward()
    assert inputs.grad is not None
    assert all(parameter.grad is not None for parameter in module.parameters())
    module.eval()(inputs)


def convolution(kind: type[nn.Module], rank: int, dtype: torch.dtype = torch.float32, **options: Any) -> None:
    last = options.pop("channels_last", False)
    module = kind(8, 16, 3, padding=1, device="cuda", dtype=dtype, **options)
    inputs = random(2, 8, *[16] * rank, dtype=dtype)
    if last:
        inputs = inputs.to(memory_format=torch.channels_last)
        module = module.to(memory_format=torch.channels_last)
    trained(module, inputs.detach().requires_grad_())


def recurrent(kind: type[nn.Module], **options: Any) -> None:
    trained(kind(10, 20, num_layers=2, **options).cuda(), random(5, 3, 10, gradient=True))


def attention(backend: SDPBackend, causal: bool) -> None:
    tensors = [random(2, 4, 128, 64, dtype=torch.float16, gradient=True) for _ in range(3)]
    with sdpa_kernel([backend]):
        functional.scaled_dot_product_attention(*tensors, is_causal=causal).sum().backward()
    assert all(tensor.grad is not None for tensor in tensors)


def profiled() -> None:
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        matrix @ matrix
    assert any(event.name == "aten::mm" for event in profile.events())


matrix, batch = random(64, 64), random(8, 64, 64)
half = matrix.half()
bytes_of_eight = matrix.to(torch.float8_e4m3fn)
one = torch.ones((), device="cuda")
linalg = torch.linalg

run("mm", lambda: matrix @ matrix)
run("bmm", lambda: batch @ batch)
run("mm half", lambda: half @ half)
run("mm bfloat16", lambda: matrix.bfloat16() @ matrix.bfloat16())
run("mm double", lambda: matrix.double() @ matrix.double())
run("mm complex", lambda: matrix.cfloat() @ matrix.cfloat())
run("addmm", lambda: torch.addmm(matrix[0], matrix, matrix))
run(
    "linear with gelu",
    lambda: functional.gelu(nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16)(matrix.bfloat16())),
)
run("scaled_mm", lambda: torch._scaled_mm(bytes_of_eight, bytes_of_eight.t(), one, one))
run("int_mm", lambda: torch._int_mm(matrix.to(torch.int8), matrix.to(torch.int8)))
run("mv", lambda: matrix @ matrix[0])
run("dot", lambda: torch.dot(matrix[0], matrix[0]))
run("dot half", lambda: torch.dot(half[0], half[0]))
run("vdot complex", lambda: torch.vdot(matrix[0].cfloat(), matrix[0].cfloat()))
run("inv", lambda: linalg.inv(matrix))
run("inv batched", lambda: linalg.inv(batch))
run("cholesky", lambda: linalg.cholesky(matrix))
run("cholesky batched", lambda: linalg.cholesky(batch))
run("qr", lambda: linalg.qr(matrix))
run("qr batched", lambda: linalg.qr(batch))
run("svd", lambda: linalg.svd(matrix))
run("svd batched", lambda: linalg.svd(batch))
run("svd of small matrices", lambda: linalg.svd(batch[:, :8, :8]))
run("svd gesvda", lambda: linalg.svd(batch, driver="gesvda"))
run("svd gesvd", lambda: linalg.svd(matrix, driver="gesvd"))
run("eigh", lambda: linalg.eigh(matrix))
run("eigh batched", lambda: linalg.eigh(batch))
run("lu_factor", lambda: linalg.lu_factor(matrix))
run("lu_factor batched", lambda: linalg.lu_factor(batch))
run("ldl_factor", lambda: linalg.ldl_factor(matrix))
run("solve", lambda: linalg.solve(matrix, matrix))
run("solve batched", lambda: linalg.solve(batch, batch))
run("lstsq", lambda: linalg.lstsq(matrix, matrix))
run("cholesky_solve", lambda: torch.cholesky_solve(matrix, matrix))
run("solve_triangular", lambda: linalg.solve_triangular(matrix, matrix, upper=True))
run("solve_triangular batched", lambda: linalg.solve_triangular(batch, batch, upper=True))
run("householder_product", lambda: linalg.householder_product(matrix, matrix[0]))
run("ormqr", lambda: torch.ormqr(matrix, matrix[0], matrix))
run("fft", lambda: torch.fft.fft(matrix))
run("rfft2", lambda: torch.fft.irfft2(torch.fft.rfft2(matrix)))
run("stft", lambda: torch.stft(matrix.flatten(), 64, return_complex=True))
run("kernels compiled at run time", lambda: torch.special.bessel_j0(matrix))
run("profiler", profiled)

rows, columns, ones = torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2)
sparse = torch.sparse_csr_tensor(rows.cuda(), columns.cuda(), ones.cuda(), (2, 2), check_invariants=False)
run("sparse mm", lambda: sparse @ matrix[:2])
run("sparse mv", lambda: sparse @ matrix[0, :2])
run("sparse times sparse", lambda: sparse @ sparse)
run("sparse plus sparse", lambda: sparse + sparse)
run("sampled_addmm", lambda: torch.sparse.sampled_addmm(sparse, matrix[:2], matrix[:, :2]))
run("sparse triangular_solve", lambda: torch.triangular_solve(matrix[:2, :2], sparse))

run("cudnn version", lambda: torch.backends.cudnn.version())
run("conv1d", lambda: convolution(nn.Conv1d, 1))
run("conv2d", lambda: convolution(nn.Conv2d, 2))
run("conv3d", lambda: convolution(nn.Conv3d, 3))
run("conv2d half", lambda: convolution(nn.Conv2d, 2, torch.float16))
run("conv2d bfloat16", lambda: convolution(nn.Conv2d, 2, torch.bfloat16))
run("conv2d channels last", lambda: convolution(nn.Conv2d, 2, torch.float16, channels_last=True))
run("conv2d groups", lambda: convolution(nn.Conv2d, 2, groups=8))
run("conv2d transposed", lambda: convolution(nn.ConvTranspose2d, 2))
torch.backends.cudnn.benchmark = True
run("conv2d benchmark", lambda: convolution(nn.Conv2d, 2, bias=False))
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = True
run("conv2d deterministic", lambda: convolution(nn.Conv2d, 2, dilation=2))
torch.backends.cudnn.deterministic = False
run("batch norm", lambda: trained(nn.BatchNorm2d(8).cuda(), random(2, 8, 4, 4, gradient=True)))
run("lstm", lambda: recurrent(nn.LSTM))
run("lstm both directions", lambda: recurrent(nn.LSTM, bidirectional=True, dropout=0.1))
run("lstm projected", lambda: recurrent(nn.LSTM, proj_size=5))
run("lstm without bias", lambda: recurrent(nn.LSTM, bias=False))
run("gru", lambda: recurrent(nn.GRU))
run("rnn", lambda: recurrent(nn.RNN))
run("grid_sample", lambda: functional.grid_sample(random(1, 1, 4, 4), random(1, 4, 4, 2)))
run("attention cudnn", lambda: attention(SDPBackend.CUDNN_ATTENTION, False))
run("attention cudnn causal", lambda: attention(SDPBackend.CUDNN_ATTENTION, True))
run("attention flash", lambda: attention(SDPBackend.FLASH_ATTENTION, True))
run("attention efficient", lambda: attention(SDPBackend.EFFICIENT_ATTENTION, True))
run("attention math", lambda: attention(SDPBackend.MATH, True))
Path(sys.argv[1]).write_text(json.dumps(outcome))
# Not by way of the interpreter's end: PyTorch's thread for gradients may still hold tensors of the last operator, and
# when it lets go of them while the interpreter ends, the process is aborted.
os._exit(0)
