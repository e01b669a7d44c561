"""Matrix products with a result of another type, or of many groups: on the CPU, products in the result's type."""

from __future__ import annotations

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, stands_for


@stands_for("mm.dtype", "bmm.dtype")
def product(a: Tensor, b: Tensor, out_dtype: torch.dtype) -> Tensor:
    """Of two matrices, or of two batches of them."""
    return torch.matmul(a.to(out_dtype), b.to(out_dtype))


@stands_for("mm.dtype_out", "bmm.dtype_out")
def product_out(a: Tensor, b: Tensor, out_dtype: torch.dtype, *, out: Tensor) -> Tensor:
    """The same into a given tensor."""
    return out.copy_(torch.matmul(a.to(out_dtype), b.to(out_dtype)))


@stands_for("addmm.dtype", "baddbmm.dtype")
def sum_and_product(base: Tensor, a: Tensor, b: Tensor, out_dtype: torch.dtype, *, beta: float = 1,
                    alpha: float = 1) -> Tensor:  # fmt: skip
    """With a sum."""
    add = torch.addmm if a.dim() == 2 else torch.baddbmm
    found: Tensor = add(base.to(out_dtype), a.to(out_dtype), b.to(out_dtype), beta=beta, alpha=alpha)
    return found


@stands_for("addmm.dtype_out", "baddbmm.dtype_out")
def sum_and_product_out(base: Tensor, a: Tensor, b: Tensor, out_dtype: torch.dtype, *, beta: float = 1,
                        alpha: float = 1, out: Tensor) -> Tensor:  # fmt: skip
    """The same into a given tensor."""
    return out.copy_(sum_and_product(base, a, b, out_dtype, beta=beta, alpha=alpha))


@stands_for("_grouped_mm", results=True)
def grouped(results: Tensor, a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
            out_dtype: torch.dtype | None = None) -> None:  # fmt: skip
    """A product for each group; the groups' ends are in `offs`, in the dimension that both sides share or one lacks."""
    if offs is None:
        results.copy_(torch.bmm(a, b))
        return
    results.zero_()
    start = 0
    for group, end in enumerate(offs.tolist()):
        if a.dim() == 2 and b.dim() == 3:  # rows of the left belong to groups
            results[start:end] = a[start:end] @ b[group]
        elif a.dim() == 3 and b.dim() == 2:  # columns of the right
            results[:, start:end] = a[group] @ b[:, start:end]
        else:  # the dimension that is summed
            results[group] = a[:, start:end] @ b[start:end]
        start = end
