"""Operators whose results have as many elements as the data says: redone on the CPU first, and sized by that.

Their own kernels would read a count from the device and find nothing there. What they allocate besides their results
(the workspace of a sort or scan) is therefore missing from the allocations of a run; operators that are built on
`nonzero`, such as indexing with a mask, are exact but for that.
"""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.aliasing import Tensor, sparse_of

HOST_FIRST = {
    "aten::_to_sparse",
    "aten::_to_sparse.sparse_dim",
    "aten::_unique",
    "aten::_unique2",
    "aten::mode",  # of a fixed size, but its kernel searches on the host for what it has sorted
    "aten::nonzero",
    "aten::nonzero.out",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
}


def results(name: str, answers: Any, out: Tensor | None, device: torch.device) -> Any:
    """Results on the device for what the CPU found."""
    if out is not None:
        return out if out.shape == answers.shape else out.resize_(answers.shape)
    if isinstance(answers, torch.Tensor):
        if answers.layout is torch.sparse_coo:
            return sparse_of(answers, lambda part: results(name, part, None, device))
        if name == "aten::nonzero":  # CUDA's has one row for each dimension, and is returned transposed
            return torch.empty(answers.shape[::-1], dtype=answers.dtype, device=device).t()
        return torch.empty(answers.shape, dtype=answers.dtype, device=device)
    return tuple(results(name, each, None, device) for each in answers)
