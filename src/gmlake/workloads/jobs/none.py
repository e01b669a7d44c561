"""No engine: one GPU that holds everything, in bfloat16 with PyTorch's own AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gmlake.workloads.jobs.job import Job, trained


class Alone:
    """A model and its optimizer on one device."""

    def __init__(self, model: Any) -> None:
        """Train what wants to be trained."""
        self.model = model
        self._optimizer = torch.optim.AdamW(trained(model), lr=1e-4, fused=True)

    def learn(self, loss: torch.Tensor) -> None:
        """One step."""
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained(self.model), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def prepare(make: Callable[[], Any], job: Job) -> Alone:
    """Make the model on the device."""
    with torch.device("cuda"):
        return Alone(make())
