"""Normalisation: CUDA keeps statistics in another precision, and fuses what the CPU composes."""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, gradients, stands_for

_aten = torch.ops.aten


def _statistics(source: Tensor, weight: Tensor | None, *saved: Tensor | None) -> list[Tensor | None]:
    """Statistics in the CPU's type: that of the parameters, else of the input. CUDA keeps float, which loses none."""
    dtype = source.dtype if weight is None else weight.dtype
    return [None if each is None else each.to(dtype) for each in saved]


@stands_for("native_layer_norm_backward")
def layer_norm_backward(grad: Tensor, source: Tensor, shape: Any, mean: Tensor, rstd: Tensor, weight: Tensor | None,
                        bias: Tensor | None, output_mask: Any) -> Any:  # fmt: skip
    """Gradients of layer normalisation."""
    mean_cpu, rstd_cpu = _statistics(source, weight, mean, rstd)
    return _aten.native_layer_norm_backward(grad, source, shape, mean_cpu, rstd_cpu, weight, bias, output_mask)


@stands_for("native_batch_norm_backward")
def batch_norm_backward(grad: Tensor, source: Tensor, weight: Tensor | None, running_mean: Tensor | None,
                        running_var: Tensor | None, save_mean: Tensor | None, save_invstd: Tensor | None, train: bool,
                        eps: float, output_mask: Any) -> Any:  # fmt: skip
    """Gradients of batch normalisation."""
    mean, invstd = _statistics(source, weight, save_mean, save_invstd)
    return _aten.native_batch_norm_backward(
        grad, source, weight, running_mean, running_var, mean, invstd, train, eps, output_mask
    )


@stands_for("batch_norm_backward")
def batch_norm_with_update_backward(grad: Tensor, source: Tensor, weight: Tensor | None, running_mean: Tensor | None,
                                    running_var: Tensor | None, save_mean: Tensor | None, save_var: Tensor | None,
                                    update: bool, eps: float, output_mask: Any, reserve: Any) -> Any:  # fmt: skip
    """The same under another name."""
    return batch_norm_backward(
        grad, source, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


@stands_for("cudnn_batch_norm")
def cudnn_batch_norm(source: Tensor, weight: Tensor, bias: Tensor | None, running_mean: Tensor | None,
                     running_var: Tensor | None, training: bool, momentum: float, eps: float) -> Any:  # fmt: skip
    """cuDNN's forward; the CPU takes its own."""
    found = _aten.native_batch_norm(source, weight, bias, running_mean, running_var, training, momentum, eps)
    return (*found, None)


@stands_for("cudnn_batch_norm_backward")
def cudnn_batch_norm_backward(source: Tensor, grad: Tensor, weight: Tensor, running_mean: Tensor | None,
                              running_var: Tensor | None, save_mean: Tensor | None, save_var: Tensor | None,
                              eps: float, reserve: Any) -> Any:  # fmt: skip
    """cuDNN's gradients."""
    return batch_norm_backward(
        grad, source, weight, running_mean, running_var, save_mean, save_var, True, eps, [True, True, True]
    )


@stands_for("_fused_rms_norm_backward")
def rms_norm_backward(grad: Tensor, source: Tensor, shape: Any, rstd: Tensor, weight: Tensor | None,
                      output_mask: Any) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """Gradients of what the CPU composes, step by step as autograd takes them; epsilon is known only through rstd."""
    dims = list(range(source.dim() - len(shape), source.dim()))
    upcast = source.to(rstd.dtype)
    normal = upcast * rstd
    after = grad.to(normal.dtype)
    of_weight = None
    if weight is not None:
        of_weight = (after * normal).sum_to_size(weight.shape).to(weight.dtype)
        after = after * weight
    of_rstd = (after * upcast).sum_to_size(rstd.shape)
    of_mean = -0.5 * of_rstd * rstd.pow(3)
    elements = 1
    for dim in dims:
        elements *= source.shape[dim]
    of_square = of_mean.expand(upcast.shape) / elements
    of_source = (after * rstd) + of_square * (2 * upcast.pow(1))
    return of_source.to(source.dtype) if output_mask[0] else None, of_weight if output_mask[1] else None


def _weight_norm(v: Tensor, g: Tensor, dim: int) -> Tensor:
    return v * (g / torch.norm_except_dim(v, 2, dim))


@stands_for("_weight_norm_interface")
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """The weight, and the norms by which it was divided."""
    return _weight_norm(v, g, dim), torch.norm_except_dim(v, 2, dim)


@stands_for("_weight_norm_interface_backward")
def weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> Any:
    """Gradients of direction and length."""
    return gradients(lambda v, g: _weight_norm(v, g, dim), [v, g], [True, True], [grad])


@stands_for("log_sigmoid_forward")
def log_sigmoid(source: Tensor) -> tuple[Tensor, None]:
    """CUDA keeps no buffer for the backward."""
    return _aten.log_sigmoid_forward(source)[0], None


@stands_for("log_sigmoid_backward")
def log_sigmoid_backward(grad: Tensor, source: Tensor, buffer: Tensor) -> Any:
    """The CPU needs the buffer: it is computed again."""
    return _aten.log_sigmoid_backward(grad, source, _aten.log_sigmoid_forward(source)[1])
