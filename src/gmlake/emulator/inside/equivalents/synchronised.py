"""Batch normalisation over several ranks, which exists on CUDA only: its steps, by their definition."""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, stands_for


def _channels(values: Tensor, like: Tensor) -> Tensor:
    """One value for each channel, so that it broadcasts over a batch."""
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _others(source: Tensor) -> list[int]:
    return [dim for dim in range(source.dim()) if dim != 1]


@stands_for("batch_norm_stats")
def stats(source: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation of this rank's batch."""
    upcast = source.float() if source.dtype in (torch.float16, torch.bfloat16) else source
    variance, mean = torch.var_mean(upcast, _others(source), correction=0)
    return mean, (variance + eps).rsqrt()


@stands_for("batch_norm_gather_stats_with_counts")
def gather_with_counts(source: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None,
                       running_var: Tensor | None, momentum: float, eps: float,
                       counts: Tensor) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Statistics of all ranks from those of each; updates the running ones."""
    weight = counts.to(mean.dtype).view(-1, 1)
    total = weight.sum()
    whole = (mean * weight).sum(0) / total
    squares = ((invstd.pow(-2) - eps + (mean - whole).square()) * weight).sum(0)
    variance = squares / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(whole.to(running_mean.dtype) * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_((squares / (total - 1)).to(running_var.dtype) * momentum)
    return whole, (variance + eps).rsqrt()


@stands_for("batch_norm_gather_stats")
def gather(source: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
           momentum: float, eps: float, count: int) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same where every rank has as many."""
    counts = torch.full((mean.shape[0],), count, dtype=mean.dtype)
    return gather_with_counts(source, mean, invstd, running_mean, running_var, momentum, eps, counts)


@stands_for("batch_norm_elemt")
def elements(source: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor,
             eps: float) -> Tensor:  # fmt: skip
    """The normalised batch."""
    found = (source - _channels(mean, source)) * _channels(invstd, source)
    if weight is not None:
        found = found * _channels(weight, source)
    if bias is not None:
        found = found + _channels(bias, source)
    return found.to(source.dtype)


@stands_for("batch_norm_backward_reduce")
def backward_reduce(grad: Tensor, source: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None, input_g: bool,
                    weight_g: bool, bias_g: bool) -> Any:  # fmt: skip
    """The sums that the ranks exchange, and this rank's gradients of weight and bias."""
    over = _others(source)
    sum_dy = grad.to(mean.dtype).sum(over)
    sum_dy_xmu = (grad.to(mean.dtype) * (source - _channels(mean, source))).sum(over)
    like = mean.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(like) if weight_g else None,
        sum_dy.to(like) if bias_g else None,
    )


@stands_for("batch_norm_backward_elemt")
def backward_elements(grad: Tensor, source: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
                      sum_dy: Tensor, sum_dy_xmu: Tensor, count: Tensor) -> Tensor:  # fmt: skip
    """The gradient of the batch."""
    total = count.sum().to(mean.dtype)
    scale = invstd if weight is None else invstd * weight
    centred = source - _channels(mean, source)
    of_mean = _channels(sum_dy / total, source)
    of_deviation = centred * _channels(invstd.square() * sum_dy_xmu / total, source)
    return ((grad - of_mean - of_deviation) * _channels(scale, source)).to(source.dtype)
