"""Softmax of half precision with a result in float, which is one step on CUDA only: the CPU converts first."""

from __future__ import annotations

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, stands_for

_aten = torch.ops.aten


@stands_for("_softmax")
def softmax(source: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Forward."""
    found: Tensor = _aten._softmax(source.float() if half_to_float else source, dim, False)
    return found


@stands_for("_softmax.out")
def softmax_out(source: Tensor, dim: int, half_to_float: bool, *, out: Tensor) -> Tensor:
    """The same into a given tensor."""
    return out.copy_(softmax(source, dim, half_to_float))


@stands_for("_log_softmax")
def log_softmax(source: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Forward of the logarithm."""
    found: Tensor = _aten._log_softmax(source.float() if half_to_float else source, dim, False)
    return found


@stands_for("_log_softmax.out")
def log_softmax_out(source: Tensor, dim: int, half_to_float: bool, *, out: Tensor) -> Tensor:
    """The same into a given tensor."""
    return out.copy_(log_softmax(source, dim, half_to_float))


@stands_for("_softmax_backward_data")
def softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """The gradient, in the type of what was converted."""
    found: Tensor = _aten._softmax_backward_data(grad, output, dim, grad.dtype)
    return found.to(input_dtype)


@stands_for("_log_softmax_backward_data")
def log_softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """The gradient of the logarithm."""
    found: Tensor = _aten._log_softmax_backward_data(grad, output, dim, grad.dtype)
    return found.to(input_dtype)
