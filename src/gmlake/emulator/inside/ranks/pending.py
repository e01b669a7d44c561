"""Lets PyTorch finish with its collectives before the next iteration.

PyTorch keeps the tensors of an asynchronous collective until a thread of its own has seen that it is over, which that
thread looks up ten times a second. On a GPU an iteration takes longer than that; here it may be over in a moment, and
memory that a real run would have again by then would still be held, now and then, by chance.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d
from torch.optim.optimizer import register_optimizer_step_post_hook


def install() -> None:
    """After every step of an optimizer."""
    register_optimizer_step_post_hook(_finish)


def _finish(*_: Any) -> None:
    if not c10d.is_initialized():
        return
    for group in list(c10d._world.pg_map):
        if "cuda" in (device.type for device in group._device_types):
            backend = group._get_backend(torch.device("cuda"))
            if backend.name() == "nccl":  # "nccl2", PyTorch 2.15's, offers no such wait
                backend._wait_for_pending_works()
