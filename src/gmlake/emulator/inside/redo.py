"""One operator's redo on the CPU: what is called with what, and how the answers get into the device's results.

When it is run, and what becomes of an error, is the business of `compute`.
"""

from __future__ import annotations

from typing import Any

import torch

from gmlake.emulator.inside import aliasing
from gmlake.emulator.inside.operators import Operator


class Call:
    """One operator's redo, ready to be run: now, or whenever the graph that it is captured in is launched."""

    __slots__ = ("args", "kwargs", "operator", "results")

    def __init__(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self.operator = operator
        self.args = aliasing.arguments(args)
        self.kwargs = {key: aliasing.arguments(value) for key, value in kwargs.items()} if kwargs else kwargs
        self.results = aliasing.arguments(result) if operator.any_new else None
        if operator.by_gradient and torch.is_grad_enabled():
            for host, device in zip(self.args, args, strict=True):
                if isinstance(device, torch.Tensor) and device.requires_grad:
                    host.requires_grad_()

    def __call__(self) -> Any:
        operator = self.operator
        if operator.sees_results:
            return operator.on_cpu(self.results, *self.args, **self.kwargs)
        answers = operator.on_cpu(*self.args, **self.kwargs)
        if operator.answers:
            return answers
        if operator.new == (True,):
            store(self.results, answers)
        elif self.results is not None:
            for is_new, result, answer in zip(operator.new, self.results, answers, strict=True):
                if is_new:
                    store(result, answer)
        return None


def store(result: Any, answer: Any) -> None:
    """Put what the CPU found where the device's result is."""
    if isinstance(result, torch.Tensor):
        if not isinstance(answer, torch.Tensor) or (answer.numel() == 0 and answer.dim() == 1):
            return  # the CPU's path does not have it, and so nobody reads it
        if result.layout is torch.sparse_coo:
            result._indices().copy_(answer._indices())
            result, answer = result._values(), answer._values()
        if result.shape != answer.shape:
            raise NotImplementedError(f"{tuple(result.shape)} on the device, {tuple(answer.shape)} on the CPU")
        result.copy_(answer)
    elif isinstance(result, (list, tuple)) and answer is not None:
        for each, its in zip(result, answer, strict=True):
            store(each, its)


def clear(operator: Operator, result: Any) -> None:
    """What nobody computed reads as zero: old bytes may pass for an index or a size, and lead anywhere."""
    for is_new, each in zip(operator.new, (result,) if len(operator.new) == 1 else result or (), strict=True):
        for tensor in aliasing.tensors(each) if is_new else ():
            aliasing.on_host(tensor).zero_()
