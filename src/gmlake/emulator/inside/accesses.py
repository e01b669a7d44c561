"""Tells the device which memory an operator reads and writes, if it was asked to look for hazards.

Two accesses from different streams, one of them a write, that nothing orders are a hazard: the device finds it, and an
allocator that hands memory to another stream too early is caught. A plain copy is the device's own and known to it.
What a graph does is not told: its nodes run in the order of their capture.

An operator runs on the stream that is current for the device of its tensors, which need not be the current device.
"""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside import native
from gmlake.emulator.inside.aliasing import are_apart, same_layout, span, tensors
from gmlake.emulator.inside.operators import Operator

_stream = torch._C._cuda_getCurrentRawStream


def _touch(value: Any, write: int) -> None:
    for tensor in tensors(value):
        _access(tensor, tensor.get_device(), write, 0)


def _access(tensor: torch.Tensor, device: int, write: int, enqueued: int) -> None:
    address, size = span(tensor)
    if size:
        native.touch(address, size, device, _stream(device), write, enqueued)


def _copied(to: torch.Tensor, source: torch.Tensor) -> None:
    if are_apart(to, source):
        # PyTorch copies on the source's stream and then lets the destination's wait for an event. That is recorded by
        # now and covers the copy, so that both accesses are those of work that was enqueued before.
        device = source.get_device()
        _access(source, device, 0, 1)
        _access(to, device, 1, 1)
    else:
        _touch(source, 0)
        _touch(to, 1)


def report(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """What an operator that has just run touched."""
    if operator.name == "aten::copy_":
        if not same_layout(args[0], args[1]):
            _copied(args[0], args[1])
        return
    _touch(args, 0)
    _touch(list(kwargs.values()), 0)
    for index in operator.written:
        if index < len(args):
            _touch(args[index], 1)
    for name in operator.written_names:
        if name in kwargs:
            _touch(kwargs[name], 1)
    if operator.any_new:
        _touch(result, 1)
