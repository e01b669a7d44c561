"""Which operators are redone on the CPU, and what their schemas say about them.

An operator is redone if it has a kernel of its own for CUDA. One that is composed of others needs nothing, with two
exceptions: where the CPU composes it of others, so that only the whole can be compared. Views, and what only
allocates or asks about a tensor, have no values to redo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from gmlake.emulator.inside.equivalents import EQUIVALENTS

_C = torch._C

# Composed on CUDA, of operators that have no counterpart on the CPU or none that gives the same bits.
_WHOLE = (
    "aten::conj_physical_",
    "aten::convolution",
    "aten::copy_",
    "aten::ldexp.Tensor",
    "aten::ldexp.out",
    "aten::ldexp_",
    "aten::mode.values",
)

_WITHOUT_VALUES = {
    "aten::_cslt_sparse_mm_search",
    "aten::_cudnn_init_dropout_state",
    "aten::_cudnn_rnn_flatten_weight",  # made of copies, each of which is redone
    "aten::_efficientzerotensor",
    "aten::_fused_sdp_choice",
    "aten::_local_scalar_dense",  # a copy to the host, which the device itself makes
    "aten::_use_cudnn_ctc_loss",
    "aten::_use_cudnn_ctc_loss.Tensor",
    "aten::_use_miopen_ctc_loss",
    "aten::_use_miopen_ctc_loss.Tensor",
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::is_set_to",
    "aten::record_stream",
}

# They look at values on the host while they run, to choose sizes or to check: what they call must be redone as well.
# None of them changes its arguments, which would then be changed twice.
_LOOKING = (
    "_fake_quantize", "_linalg_", "_nested_tensor_from_mask", "bincount", "equal", "fake_quantize", "histc",
    "linalg_", "repeat_interleave", "searchsorted", "segment_reduce",
)  # fmt: skip

# The CPU chooses its kernel by whether gradients will be needed.
_BY_GRADIENT = {
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "convolution",
}


class Operator:
    """One overload: its kernel for the device, and what a redo has to know."""

    def __init__(self, name: str, key: str = "CUDA") -> None:
        packet, _, overload = name.removeprefix("aten::").partition(".")
        self.name = name
        self.overload: Any = getattr(getattr(torch.ops.aten, packet), overload or "default")
        self.kernel: Callable[..., Any] = torch.library.get_kernel(name, key).call_boxed
        schema = self.overload._schema
        # Where a tensor is expected, a number may stand: by position, because none of them is keyword-only.
        self.tensors = frozenset(
            index
            for index, argument in enumerate(schema.arguments)
            if str(argument.type) in ("Tensor", "Optional[Tensor]") and not argument.kwarg_only
        )
        self.random = any(argument.name == "generator" for argument in schema.arguments)
        # Arguments that are written to, by position and by name.
        self.written = tuple(index for index, argument in enumerate(schema.arguments) if _is_written(argument))
        self.written_names = tuple(argument.name for argument in schema.arguments if _is_written(argument))
        # Which results are new: they have to be copied to the device's. The others are arguments that were written to.
        self.new = tuple(not _is_written(result) for result in schema.returns)
        self.any_new = any(self.new)
        self.answers = [str(result.type) for result in schema.returns] == ["bool"]
        equivalent = EQUIVALENTS.get(name)
        self.on_cpu: Callable[..., Any] = self.overload if equivalent is None else equivalent.function
        self.sees_results = equivalent is not None and equivalent.results
        self.looking = packet.startswith(_LOOKING) and not packet.endswith("_")
        self.by_gradient = packet in _BY_GRADIENT

    def has_values(self) -> bool:
        """Whether it computes anything, or writes to what it is given."""
        if self.name in _WITHOUT_VALUES or torch.Tag.inplace_view in self.overload.tags:
            return False
        results = self.overload._schema.returns
        return not any(result.alias_info is not None and not result.alias_info.is_write for result in results)


def _is_written(value: Any) -> bool:
    return value.alias_info is not None and bool(value.alias_info.is_write)


def covered() -> Iterator[Operator]:
    """All operators that are to be redone."""
    for name in _C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        if _C._dispatch_has_kernel_for_dispatch_key(name, "CUDA") or name in _WHOLE:
            operator = Operator(name)
            if operator.has_values():
                yield operator
