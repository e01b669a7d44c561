"""Fused attention. The CPU has one fused kernel of its own and the composed formula; it chooses as in a CPU run.

Where the CPU chooses its fused kernel, the logarithms of the sums go where CUDA's kernel puts them. Where it composes,
they are filled with NaN, which nothing reads and which tells the backward to compute the formula's gradient. A mask
comes here expanded to four dimensions; one that had three is composed in a CPU run, and bits may differ then.
"""

from __future__ import annotations

import contextlib
import math
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gmlake.emulator.inside.equivalents.table import Draws, Tensor, gradients, stands_for

_aten = torch.ops.aten
_FUSED = 1  # SDPBackend.FLASH_ATTENTION, which is the only fused one on the CPU

_draws = Draws()  # the ticket travels in CUDA's own random state


def _unpadded(scale: float | None, *tensors: Tensor) -> int:
    """The size of a head before CUDA's path padded it with zeros to a multiple of eight; the scale still knows it."""
    size = int(tensors[0].shape[-1])
    if scale is None or size % 8:
        return size
    for before in range(size - 7, size):
        if before > 0 and 1.0 / math.sqrt(before) == scale and not any(each[..., before:].any() for each in tensors):
            return before
    return size


def _choices() -> AbstractContextManager[None]:
    """What the CPU may choose from: all it has, where the program allows only kernels that it has not."""
    if torch.backends.cuda.flash_sdp_enabled() or torch.backends.cuda.math_sdp_enabled():
        return contextlib.nullcontext()
    chosen: AbstractContextManager[None] = sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
    return chosen


class _Attention:
    """One call: what the CPU's operators are given."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float, causal: bool, scale: float | None
    ) -> None:
        size = _unpadded(scale, q, k, v)
        self.tensors = [each[..., :size] for each in (q, k, v)]
        self.bias = bias
        self.dropout = dropout
        self.causal = causal
        self.scale = scale
        self.grouped = q.dim() > 2 and q.shape[-3] != k.shape[-3]

    def is_fused(self) -> bool:
        with _choices():
            choice = torch._fused_sdp_choice(
                *self.tensors, self.bias, self.dropout, self.causal, scale=self.scale, enable_gqa=self.grouped
            )
        return bool(choice == _FUSED)

    def fused(self) -> tuple[Tensor, Tensor]:
        output, sums = _aten._scaled_dot_product_flash_attention_for_cpu(
            *self.tensors, self.dropout, self.causal, attn_mask=self.bias, scale=self.scale
        )
        return output, sums

    def composed(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        output: Tensor = _aten._scaled_dot_product_attention_math(
            q, k, v, bias, self.dropout, self.causal, scale=self.scale, enable_gqa=self.grouped
        )[0]
        return output

    def forward(self, output: Tensor, sums: Tensor | None, seed: Tensor | None) -> None:
        """Write into CUDA's results; padding stays zero."""
        if self.dropout > 0 and seed is not None and seed.numel():
            seed.fill_(_draws.remember())
        fused = self.is_fused()
        with torch.no_grad():
            if fused:
                found, logarithms = self.fused()
                if sums is not None and sums.numel():
                    sums[..., : logarithms.shape[-1]] = logarithms
            else:
                q, k, v = self.tensors
                found = self.composed(q, k, v, self.bias)
                if sums is not None:
                    sums.fill_(math.nan)
            output[..., : found.shape[-1]] = found

    def backward(
        self, grad: Tensor, output: Tensor, sums: Tensor, seed: Tensor | None, wanted: list[bool]
    ) -> list[Tensor | None]:
        """Gradients of query, key, value and bias."""
        grad = grad[..., : self.tensors[2].shape[-1]]
        output = output[..., : grad.shape[-1]]
        if not bool(sums.isnan().all()):
            found = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grad, *self.tensors, output, sums[..., : grad.shape[-2]], self.dropout, self.causal,
                attn_mask=self.bias, scale=self.scale,
            )  # fmt: skip
            return [*found, None]

        def again() -> list[Tensor | None]:
            return gradients(self.composed, [*self.tensors, self.bias], wanted, [grad])

        if self.dropout > 0 and seed is not None and seed.numel():
            answer: list[Tensor | None] = _draws.again(int(seed.view(-1)[0]), again)
            return answer
        return again()


def _padded(found: list[Tensor | None], like: list[Tensor]) -> list[Tensor | None]:
    """Zeros where CUDA's path had padded the heads."""
    padded: list[Tensor | None] = []
    for each, whole in zip(found, like, strict=True):
        if each is not None and each.shape != whole.shape:
            each = torch.nn.functional.pad(each, (0, whole.shape[-1] - each.shape[-1]))
        padded.append(each)
    return padded


@stands_for("_scaled_dot_product_flash_attention", results=True)
def flash(results: Any, q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
          return_debug_mask: bool = False, *, scale: float | None = None) -> None:  # fmt: skip
    """Forward of flash attention."""
    _Attention(q, k, v, None, dropout_p, is_causal, scale).forward(results[0], results[1], results[6])


@stands_for("_scaled_dot_product_cudnn_attention", results=True)
def cudnn(results: Any, q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
          dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *,
          scale: float | None = None) -> None:  # fmt: skip
    """Forward of cuDNN's attention, whose sums have a dimension more, and are not there without gradients."""
    sums = None if results[1] is None else results[1].squeeze(-1)
    _Attention(q, k, v, attn_bias, dropout_p, is_causal, scale).forward(results[0], sums, results[6])


@stands_for("_scaled_dot_product_efficient_attention", results=True)
def efficient(results: Any, q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
              dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None) -> None:  # fmt: skip
    """Forward of memory-efficient attention."""
    _Attention(q, k, v, attn_bias, dropout_p, is_causal, scale).forward(results[0], results[1], results[2])


@stands_for("_scaled_dot_product_flash_attention_backward")
def flash_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, cum_q: Any, cum_k: Any,
                   max_q: int, max_k: int, dropout_p: float, is_causal: bool, seed: Tensor, offset: Tensor, *,
                   scale: float | None = None) -> Any:  # fmt: skip
    """Gradients of flash attention."""
    call = _Attention(q, k, v, None, dropout_p, is_causal, scale)
    return _padded(call.backward(grad, out, sums, seed, [True, True, True, False])[:3], [q, k, v])


@stands_for("_scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, seed: Tensor,
                   offset: Tensor, attn_bias: Tensor | None, cum_q: Any, cum_k: Any, max_q: int, max_k: int,
                   dropout_p: float, is_causal: bool, *, scale: float | None = None) -> Any:  # fmt: skip
    """Gradients of cuDNN's attention."""
    bias = None if attn_bias is None or not attn_bias.numel() else attn_bias
    call = _Attention(q, k, v, bias, dropout_p, is_causal, scale)
    return _padded(call.backward(grad, out, sums.squeeze(-1), seed, [True, True, True, False])[:3], [q, k, v])


@stands_for("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None, out: Tensor,
                       sums: Tensor, seed: Tensor, offset: Tensor, dropout_p: float, wanted: list[bool],
                       is_causal: bool = False, *, scale: float | None = None) -> Any:  # fmt: skip
    """Gradients of memory-efficient attention."""
    bias = None if attn_bias is None or not attn_bias.numel() else attn_bias
    call = _Attention(q, k, v, bias, dropout_p, is_causal, scale)
    found = call.backward(grad, out, sums, seed, list(wanted))
    return [each if want else None for each, want in zip(found, wanted, strict=True)]
