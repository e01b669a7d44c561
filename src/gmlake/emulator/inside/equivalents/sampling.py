"""Sampling from grids, for which CUDA may take cuDNN: linear, with zeros outside, and corners aligned."""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, gradients, stands_for

_OPTIONS = (0, 0, True)


@stands_for("cudnn_grid_sampler")
def grid_sampler(source: Tensor, grid: Tensor) -> Tensor:
    """Forward."""
    return torch.grid_sampler(source, grid, *_OPTIONS)


@stands_for("cudnn_grid_sampler_backward")
def grid_sampler_backward(source: Tensor, grid: Tensor, grad: Tensor) -> Any:
    """Gradients of source and grid."""
    return gradients(grid_sampler, [source, grid], [True, True], [grad])


@stands_for("cudnn_affine_grid_generator")
def affine_grid(theta: Tensor, n: int, c: int, h: int, w: int) -> Tensor:
    """Forward."""
    return torch.affine_grid_generator(theta, [n, c, h, w], True)


@stands_for("cudnn_affine_grid_generator_backward")
def affine_grid_backward(grad: Tensor, n: int, c: int, h: int, w: int) -> Any:
    """Gradient of the transformation, which does not depend on it."""
    theta = torch.zeros(n, 2, 3, dtype=grad.dtype)
    return gradients(lambda theta: affine_grid(theta, n, c, h, w), [theta], [True], [grad])[0]
