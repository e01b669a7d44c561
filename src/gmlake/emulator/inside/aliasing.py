"""CPU tensors that lie in device memory, and what else an operator's arguments become when it is redone on the CPU.

The emulated device's memory is mapped in this process at its device addresses, so a CPU tensor over the same bytes is
only a matter of metadata. Such a tensor owns nothing: it neither keeps a block alive nor frees it, and must not outlive
the operator, except in a recorded graph, whose memory PyTorch keeps for as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch

from gmlake.emulator.inside import generators

Tensor: TypeAlias = torch.Tensor
CPU = torch.device("cpu")
_NUMBERS = frozenset((int, float, bool, complex))
_PLAIN = frozenset((*_NUMBERS, str, type(None), torch.dtype, torch.layout, torch.memory_format))

_storage: Callable[[int, torch.device, int], Any] = torch._C._construct_storage_from_data_pointer
# A subclass may answer otherwise, or refuse to.
_shape: Callable[[Tensor], Any] = torch._C.TensorBase.shape.__get__


def on_host(tensor: Tensor) -> Tensor:
    """The CPU tensor over the same bytes; a tensor that is on the CPU already comes back as it is."""
    if not tensor.is_cuda:
        return tensor
    if tensor.is_nested:
        raise NotImplementedError("nested tensors")
    if tensor.layout is not torch.strided:
        return _sparse_on_host(tensor)
    # Not through the tensor's storage: once Python has seen that, autograd takes it for shared, and does not add
    # gradients in place.
    address, size = span(tensor)
    shape, stride, dtype = _shape(tensor), tensor.stride(), tensor.dtype
    if size == 0:
        return torch.empty_strided(shape, stride, dtype=dtype, device=CPU)
    host = torch.empty(0, dtype=dtype, device=CPU)
    host.set_(_storage(address, CPU, size), 0, shape, stride)
    if dtype.is_complex and tensor.is_conj():
        host = torch._conj(host)
    if tensor.is_neg():
        host = torch._neg_view(host)
    return host


def _sparse_on_host(tensor: Tensor) -> Tensor:
    if tensor.layout is not torch.sparse_coo:
        raise NotImplementedError(f"tensors of layout {tensor.layout}")
    return sparse_of(tensor, on_host)


def sparse_of(tensor: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """The sparse tensor whose indices and values are what `part` makes of this one's."""
    indices, values = part(tensor._indices()), part(tensor._values())
    return torch.sparse_coo_tensor(
        indices, values, _shape(tensor), is_coalesced=tensor.is_coalesced(), check_invariants=False
    )


def arguments(value: Any) -> Any:
    """An argument as the CPU's operator takes it: tensors in place, the CPU's generator, the CPU as device."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return on_host(value)
    if kind is list or kind is tuple:
        return [arguments(each) for each in value]
    if kind is torch.Generator:
        return generators.on_host(value)
    if kind is torch.device:
        return CPU
    return value


def tensors(value: Any) -> Iterator[Tensor]:
    """The device's tensors among arguments or results; one that is not plain is those that it consists of."""
    if isinstance(value, torch.Tensor):
        if value.is_cuda:
            yield from _parts(value)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.is_nested:
        return (tensor.values(),)
    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()


def span(tensor: Tensor) -> tuple[int, int]:
    """Address and length of the bytes from a tensor's first element to its last."""
    elements = tensor.numel()
    if elements and not tensor.is_contiguous():
        elements = 1
        for length, stride in zip(_shape(tensor), tensor.stride(), strict=True):
            elements += (length - 1) * stride
    return tensor.data_ptr(), elements * tensor.itemsize


def same_layout(one: Tensor, other: Tensor) -> bool:
    """Whether copying one to the other is copying bytes, in order."""
    return bool(
        one.dtype == other.dtype
        and _shape(one) == _shape(other)
        and one.is_contiguous()
        and other.is_contiguous()
        and one.is_conj() == other.is_conj()
        and one.is_neg() == other.is_neg()
    )


def are_apart(one: Tensor, other: Tensor) -> bool:
    """Whether they are on two devices."""
    return bool(one.is_cuda and other.is_cuda and one.get_device() != other.get_device())


def _marked_numbers() -> dict[type, Tensor]:
    """Tensors that count as numbers in type promotion; autograd saves them so, and there is no other way to one."""
    found = {}
    for number in (True, 1, 1.0, 1j):
        one = torch.ones((), dtype=torch.complex64 if isinstance(number, complex) else torch.float32, device=CPU)
        found[type(number)] = one.requires_grad_().mul(number).grad_fn._saved_other
    return found


class Numbers:
    """Turns the numbers that stand where a tensor is expected back into what they were in C++.

    A kernel in Python sees `x * 2` as the number 2, but only a tensor that is marked as a number may be passed on:
    another one would take part in type promotion.
    """

    _REMEMBERED = 1024

    def __init__(self) -> None:
        with torch.enable_grad():
            self._marked = _marked_numbers()
        self._known: dict[tuple[type, complex], Tensor] = {}

    def among(self, positions: frozenset[int], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same arguments, with tensors for the numbers at these positions."""
        for index, value in enumerate(values):
            if type(value) in _NUMBERS and index in positions:
                return tuple(
                    self.tensor(each) if type(each) in _NUMBERS and at in positions else each
                    for at, each in enumerate(values)
                )
        return values

    def tensor(self, number: complex) -> Tensor:
        """A tensor that counts as a number."""
        known = self._known.get((type(number), number)) if number else None  # zero has two signs
        if known is not None:
            return known
        with torch._C.DisableTorchFunction():
            marked = self._marked[type(number)]
            new = marked.detach().set_(torch.scalar_tensor(number, dtype=marked.dtype, device=CPU))
        if len(self._known) >= self._REMEMBERED:
            self._known.clear()
        self._known[type(number), number] = new
        return new
