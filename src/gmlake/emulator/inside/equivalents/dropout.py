"""Dropout: on the CPU the mask is drawn in the input's type, divided by the probability to keep, and multiplied."""

from __future__ import annotations

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, stands_for

# CUDA's backward knows only the scale, 1 / (1 - p); the CPU divides by 1 - p, which this finds again.
_kept: dict[float, float] = {}


def _noise(mask: Tensor, keep: float, dtype: torch.dtype) -> Tensor:
    return mask.to(dtype).div_(keep)


@stands_for("native_dropout")
def native_dropout(source: Tensor, p: float, train: bool | None = None) -> tuple[Tensor, Tensor]:
    """Forward; in evaluation (train is False) nothing is dropped."""
    if train is False or p == 0:
        return source.clone(), torch.ones_like(source, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(source), torch.zeros_like(source, dtype=torch.bool)
    keep = 1 - p
    _kept[1 / keep] = keep
    noise = torch.empty_like(source).bernoulli_(keep)
    mask = noise.to(torch.bool)
    return source * noise.div_(keep), mask


@stands_for("native_dropout_backward")
def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Gradient: the same noise once more."""
    keep = _kept.get(scale)
    if keep is None:
        return grad * mask * scale
    return grad * _noise(mask, keep, grad.dtype)


@stands_for("_fused_dropout")
def fused_dropout(source: Tensor, p: float, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Forward; p is the probability to keep here, and the mask is of bytes."""
    noise = torch.empty_like(source).bernoulli_(p, generator=generator)
    mask = noise.to(torch.uint8)
    _kept[1 / p] = p
    return source * noise.div_(p), mask


@stands_for("_masked_scale")
def masked_scale(source: Tensor, mask: Tensor, scale: float) -> Tensor:
    """What _fused_dropout's backward uses."""
    return native_dropout_backward(source, mask, scale)
