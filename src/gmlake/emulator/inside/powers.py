"""A number to the power of a tensor. CUDA's kernel makes a device tensor of the number and marks it as a number; such a
tensor cannot be shown to Python, where our kernels are. So the kernel for two tensors is called, which is next anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gmlake.emulator.inside.aliasing import Numbers


def kernels(numbers: Numbers) -> dict[str, Callable[..., Any]]:
    """What is called in the place of CUDA's own kernels."""
    functional = torch.library.get_kernel("aten::pow.Tensor_Tensor", "CUDA").call_boxed
    into = torch.library.get_kernel("aten::pow.Tensor_Tensor_out", "CUDA").call_boxed

    def scalar(keyset: Any, base: complex, exponent: torch.Tensor) -> Any:
        result = functional(keyset, numbers.tensor(base), exponent)
        _number_on_device(exponent)
        return result

    def scalar_out(keyset: Any, base: complex, exponent: torch.Tensor, *, out: torch.Tensor) -> Any:
        result = into(keyset, numbers.tensor(base), exponent, out=out)
        _number_on_device(exponent)
        return result

    return {"aten::pow.Scalar": scalar, "aten::pow.Scalar_out": scalar_out}


def _number_on_device(exponent: torch.Tensor) -> None:
    # What the kernel allocates for its number.
    torch.empty((), dtype=torch.float64, device=exponent.device)
