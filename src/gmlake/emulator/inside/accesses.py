"""Tells the device which memory an operator reads and writes, if it was asked to look for hazards.

Two accesses from different streams, one of them a write, that nothing orders are a hazard: the device finds it, and an
allocator that hands memory to another stream too early is caught. Copies are the device's own and known to it. What a
graph does is not told: its nodes run in the order of their capture.
"""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside import native
from gmlake.emulator.inside.aliasing import span, tensors
from gmlake.emulator.inside.operators import Operator

_stream = torch._C._cuda_getCurrentRawStream


def _touch(value: Any, write: int) -> None:
    for tensor in tensors(value):
        address, size = span(tensor)
        if size:
            native.touch(address, size, _stream(tensor.get_device()), write)


def report(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """What an operator that has just run touched."""
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
