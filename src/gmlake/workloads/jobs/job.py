"""The job as the child reads it, and what tasks and engines promise each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True)
class Job:
    """What gmlake.workloads.workload.Workload.job() wrote."""

    task: str
    model: dict[str, Any]
    engine: str
    strategy: str
    batch: int
    shapes: list[Any]
    seed: int
    options: dict[str, Any]

    @property
    def lora(self) -> bool:
        """Only adapters are trained."""
        return "L" in self.strategy

    @property
    def recompute(self) -> bool:
        """Activations are computed again in the backward pass."""
        return "R" in self.strategy

    @property
    def offload(self) -> bool:
        """Parameters and the optimizer's state live on the host."""
        return "O" in self.strategy

    @property
    def full_precision(self) -> bool:
        """Parameters are kept in float32; only FSDP2 casts them while it gathers, others have copies of their own."""
        return self.engine == "fsdp2" and not self.lora


class Trainer(Protocol):
    """A model spread over the ranks, and its optimizer."""

    model: Any

    def learn(self, loss: torch.Tensor) -> None:
        """One backward pass and one step."""


def trained(model: Any) -> list[Any]:
    """The parameters that are trained."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
