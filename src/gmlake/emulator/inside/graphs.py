"""CUDA graphs under shadow compute: what is captured is redone when the graph is launched.

During a capture nothing is computed. The redo becomes a node of the graph, between the copies that the device makes
itself, and runs whenever a launch reaches it.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch

from gmlake.emulator.inside import native

_calls: dict[int, Callable[[], None]] = {}
_numbers = itertools.count(1)


def capturing() -> bool:
    """Whether what is enqueued now goes into a graph."""
    return bool(torch._C._cuda_isCurrentStreamCapturing())


def frozen(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as they are now: a number in host memory is part of the graph, whatever becomes of it later."""
    return tuple(
        each.clone() if isinstance(each, torch.Tensor) and each.dim() == 0 and not each.is_cuda else each
        for each in args
    )


def record(call: Callable[[], None]) -> None:
    """Make this a node of the graph that the current stream is capturing."""
    number = next(_numbers)
    _calls[number] = call
    stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
    if not native.capture_call(stream, number):
        del _calls[number]
        raise RuntimeError("the emulated device does not know that this stream is capturing")


def _replay(number: int) -> None:
    # Called by the device, which cannot take an exception.
    try:
        _calls[number]()
    except BaseException:
        traceback.print_exc(file=sys.stderr)


def start() -> None:
    """Let launches of graphs find the recorded calls."""
    native.on_replay(_replay)
