"""Tensors that are not plain: sparse ones are redone on the CPU first; for the others the user is told that none are.

PyTorch has separate kernels for them. Where these are made of operators on plain tensors, such as reading the indices
of a sparse tensor or copying one, they are right by that and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from gmlake.emulator.inside import aliasing, graphs
from gmlake.emulator.inside.aliasing import Tensor
from gmlake.emulator.inside.operators import Operator

SPARSE = "SparseCUDA"
OTHERS = {"SparseCsrCUDA": "compressed sparse", "QuantizedCUDA": "quantized", "NestedTensorCUDA": "nested"}

# Made of operators on plain tensors, or of none.
_ALONE = {
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors", "_values", "ccol_indices", "clone", "col_indices", "copy_",
    "copy_sparse_to_sparse_", "crow_indices", "dense_dim", "empty", "empty_like", "indices", "is_coalesced", "permute",
    "resize_", "resize_as_sparse_", "row_indices", "sparse_dim", "sparse_resize_", "sparse_resize_and_clear_",
    "unsqueeze", "values", "zero_", "zeros",
}  # fmt: skip


def concerned(key: str) -> Iterator[Operator]:
    """The operators that have a kernel for tensors of this kind and may compute something in it."""
    for name in torch._C._dispatch_get_all_op_names():
        packet = name.removeprefix("aten::").partition(".")[0]
        if not name.startswith("aten::") or packet in _ALONE:
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
            operator = Operator(name, key)
            if operator.has_values():
                yield operator


def untold(operator: Operator, kind: str, tell: Callable[[str, str], None]) -> Callable[..., Any]:
    """A kernel that says, once, that nothing is computed."""
    original = operator.kernel

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        tell(f"{operator.name} of {kind} tensors", "only plain and sparse tensors are computed")
        return original(keyset, *args, **kwargs)

    return run


def sparse(operator: Operator, state: tuple[Any, Any]) -> Callable[..., Any]:
    """A kernel that runs the CPU's operator and makes the device's results of what it found."""
    copy = torch.library.get_kernel("aten::copy_", SPARSE).call_boxed
    original = operator.kernel

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if graphs.capturing():
            return original(keyset, *args, **kwargs)
        with torch._C._ForceDispatchKeyGuard(*state), torch._C.DisableTorchFunction():
            ours, named = aliasing.arguments(args), {key: aliasing.arguments(value) for key, value in kwargs.items()}
            answer = operator.overload(*ours, **named)
            for changed, theirs in zip((*ours, *named.values()), (*args, *kwargs.values()), strict=True):
                if isinstance(theirs, torch.Tensor) and theirs.layout is torch.sparse_coo:
                    _give_back(changed, theirs, lambda to, source: copy(keyset, to, source))
            if operator.any_new:
                return _on_device(answer, _device(args))
        return kwargs["out"] if "out" in kwargs else args[0]

    return run


def _device(args: tuple[Any, ...]) -> torch.device:
    return next(each.device for each in args if isinstance(each, torch.Tensor) and each.is_cuda)


def _on_device(answer: Any, device: torch.device) -> Any:
    """What the CPU found, as a result of the device."""
    if isinstance(answer, (list, tuple)):
        return tuple(_on_device(each, device) for each in answer)
    if not isinstance(answer, torch.Tensor):
        return answer
    if answer.layout is not torch.sparse_coo:
        return answer.to(device)
    return aliasing.sparse_of(answer, lambda part: part.to(device))


def _give_back(changed: Tensor, theirs: Tensor, copy: Callable[[Tensor, Tensor], object]) -> None:
    """A sparse tensor that was changed has its values in place, unless it has others now."""
    values, before = changed._values(), theirs._values()
    if values.data_ptr() != before.data_ptr() or values.shape != before.shape:
        copy(theirs, _on_device(changed, theirs.device))
