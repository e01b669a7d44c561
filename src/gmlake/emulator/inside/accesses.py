"""Tells the device which memory an operator wrote, and, if it looks for hazards, which it read.

The device makes memory read as zero when a block is handed out anew, and has to know what was written. A write of
another stream that nothing orders is a hazard, which it finds itself. Copies are its own and known to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gmlake.emulator.inside import native
from gmlake.emulator.inside.aliasing import span
from gmlake.emulator.inside.operators import Operator

_hazards = native.configured("hazards") == "1"
_stream = torch._C._cuda_getCurrentRawStream


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_cuda and value.layout is torch.strided:
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _touch(value: Any, write: int) -> None:
    for tensor in _tensors(value):
        address, size = span(tensor)
        if size:
            native.touch(address, size, _stream(tensor.get_device()), write)


def report(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """What an operator that has just run touched."""
    if _hazards:
        _touch(args, 0)
        _touch(list(kwargs.values()), 0)
    for index in operator.written:
        if index < len(args):
            _touch(args[index], 1)
    for name in operator.written_names:
        if name in kwargs:
            _touch(kwargs[name], 1)
    if any(operator.new):
        _touch(result, 1)
