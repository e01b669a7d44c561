"""Bags of embeddings: CUDA and the CPU remember different things for the backward."""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside.equivalents.table import Tensor, stands_for

_aten = torch.ops.aten


@stands_for("_embedding_bag", "_embedding_bag_forward_only", results=True)
def embedding_bag(results: Any, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
                  mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
                  include_last_offset: bool = False, padding_idx: int = -1) -> None:  # fmt: skip
    """Forward; what CUDA's backward expects is written in CUDA's form."""
    output, bag_of, sizes, largest = results
    found = _aten._embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
    )
    output.copy_(found[0])
    starts = offsets[:-1] if include_last_offset else offsets
    if bag_of.numel():
        order = torch.arange(indices.shape[0], dtype=starts.dtype)
        bag_of.copy_(torch.searchsorted(starts, order, right=True) - 1)
        counts = torch.bincount(bag_of[indices != padding_idx], minlength=sizes.numel())
        sizes.copy_(counts[: sizes.numel()])
    if largest.shape == found[3].shape:
        largest.copy_(found[3])
