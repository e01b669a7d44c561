"""The table of equivalents, and how a backward operator is computed from a forward function."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch

Tensor: TypeAlias = torch.Tensor
Function = TypeVar("Function", bound=Callable[..., Any])


class Equivalent(NamedTuple):
    """A function of the operator's arguments; with `results`, the device's results come first, as CPU tensors."""

    function: Callable[..., Any]
    results: bool = False


EQUIVALENTS: dict[str, Equivalent] = {}

# The dispatcher's state with autograd, as it is in a fresh thread; a redo runs below it.
_FRESH = (torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set())


def stands_for(*names: str, results: bool = False) -> Callable[[Function], Function]:
    """Enter a function into the table."""

    def enter(function: Function) -> Function:
        for name in names:
            EQUIVALENTS[f"aten::{name}"] = Equivalent(function, results)
        return function

    return enter


def gradients(
    forward: Callable[..., Any], inputs: Sequence[Tensor | None], wanted: Sequence[bool], after: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Gradients by autograd on the CPU, whose formulas are those of a CPU run: the forward is computed once more."""
    with torch._C._ForceDispatchKeyGuard(*_FRESH), torch.enable_grad():
        leaves = [
            None if each is None else each.detach().requires_grad_(want)
            for each, want in zip(inputs, wanted, strict=True)
        ]
        outputs = forward(*leaves)
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        pairs = [(out, grad) for out, grad in zip(outputs, after, strict=True) if grad is not None]
        sought = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        found = iter(
            torch.autograd.grad([out for out, _ in pairs], sought, [grad for _, grad in pairs], allow_unused=True)
        )
    return [next(found) if leaf is not None and leaf.requires_grad else None for leaf in leaves]


class Draws:
    """Random states that a backward has to return to, under a ticket that it is given again."""

    _REMEMBERED = 4096

    def __init__(self) -> None:
        self._states: OrderedDict[int, Tensor] = OrderedDict()
        self._tickets = count(1)

    def remember(self, ticket: int | None = None) -> int:
        """Keep the CPU's present state; returns the ticket, which is a new one unless it is given."""
        ticket = next(self._tickets) if ticket is None else ticket
        self._states.pop(ticket, None)
        self._states[ticket] = torch.get_rng_state()
        if len(self._states) > self._REMEMBERED:
            self._states.popitem(last=False)
        return ticket

    def again(self, ticket: int, function: Callable[[], Any]) -> Any:
        """Run a function from the state of the ticket; the present state is as it was afterwards."""
        state = self._states.get(ticket)
        if state is None:
            raise NotImplementedError("the random state of the forward pass is no longer known")
        present = torch.get_rng_state()
        torch.set_rng_state(state)
        try:
            return function()
        finally:
            torch.set_rng_state(present)
