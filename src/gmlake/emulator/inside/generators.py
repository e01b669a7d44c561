"""Which CPU generator stands for a CUDA generator, so that a random operator draws what a CPU run would draw.

PyTorch's default CUDA generators stand for the default CPU generator: `torch.manual_seed` seeds them all, and a CPU run
knows only that one. A generator of the program's own gets a twin with the same seed. The twin follows the original by
its state (seed and offset): what seeds the original anew or sets an earlier state back does the same to the twin.
"""

from __future__ import annotations

from collections import OrderedDict

import torch

_REMEMBERED = 256  # states to which a generator can be set back, and generators that have a twin


class _Twin:
    """A CPU generator, and which of its states belong to which of the original's."""

    def __init__(self) -> None:
        self.generator = torch.Generator()
        self.at = b""
        self.states: OrderedDict[bytes, torch.Tensor] = OrderedDict()


_twins: OrderedDict[int, _Twin] = OrderedDict()  # by the address of the generator in C++
_defaults: set[int] = set()


def _is_default(generator: torch.Generator) -> bool:
    if not _defaults:
        _defaults.update(each._cdata for each in torch.cuda.default_generators)
    return generator._cdata in _defaults


def _twin(generator: torch.Generator) -> _Twin:
    twin = _twins.setdefault(generator._cdata, _Twin())
    if len(_twins) > _REMEMBERED:
        _twins.popitem(last=False)
    return twin


def on_host(generator: torch.Generator) -> torch.Generator | None:
    """The CPU generator to draw from; None is the default one."""
    if generator.device.type != "cuda":
        return generator
    return None if _is_default(generator) else _twin(generator).generator


def about_to_draw(generator: torch.Generator) -> None:
    """The original is in the state from which it will draw: bring the twin there."""
    if generator.device.type != "cuda" or _is_default(generator):
        return
    twin = _twin(generator)
    state = bytes(generator.get_state().tolist())
    if state == twin.at:
        return
    known = twin.states.get(state)
    if known is None:
        twin.generator.manual_seed(generator.initial_seed())
    else:
        twin.generator.set_state(known)
    twin.at = state


def has_drawn(generator: torch.Generator) -> None:
    """Original and twin have both drawn: remember that these states belong together."""
    if generator.device.type != "cuda" or _is_default(generator):
        return
    twin = _twin(generator)
    twin.at = bytes(generator.get_state().tolist())
    twin.states[twin.at] = twin.generator.get_state()
    if len(twin.states) > _REMEMBERED:
        twin.states.popitem(last=False)
