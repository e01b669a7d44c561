"""Convolutions, which the CPU chooses by whether gradients will be needed."""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, stands_for

_aten = torch.ops.aten


@stands_for("cudnn_convolution")
def cudnn_convolution(source: Tensor, weight: Tensor, padding: Any, stride: Any, dilation: Any, groups: int,
                      *_: bool) -> Tensor:  # fmt: skip
    """Called by the program itself; as a part of `convolution` it is not redone."""
    found: Tensor = _aten.convolution(
        source, weight, None, stride, padding, dilation, False, [0] * len(padding), groups
    )
    return found


@stands_for("cudnn_convolution_transpose")
def cudnn_convolution_transpose(source: Tensor, weight: Tensor, padding: Any, output_padding: Any, stride: Any,
                                dilation: Any, groups: int, *_: bool) -> Tensor:  # fmt: skip
    """The transposed one."""
    found: Tensor = _aten.convolution(source, weight, None, stride, padding, dilation, True, output_padding, groups)
    return found


@stands_for("cudnn_convolution_relu")
def cudnn_convolution_relu(source: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
                           dilation: Any, groups: int) -> Tensor:  # fmt: skip
    """Convolution, bias and rectification in one."""
    found: Tensor = _aten.convolution(
        source, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups
    )
    return found.relu_()


@stands_for("_conv_depthwise2d", "conv_depthwise3d")
def depthwise(source: Tensor, weight: Tensor, kernel_size: Any, bias: Tensor | None, stride: Any, padding: Any,
              dilation: Any) -> Tensor:  # fmt: skip
    """One group for each channel."""
    found: Tensor = _aten.convolution(
        source, weight, bias, stride, padding, dilation, False, [0] * len(padding), source.shape[1]
    )
    return found
