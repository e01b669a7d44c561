"""One workload: a training job that is described completely, and so can be recorded again to the same trace."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

STRATEGIES = {
    "N": "none",
    "R": "recomputation",
    "LR": "LoRA, recomputation",
    "RO": "recomputation, offload",
    "LRO": "LoRA, recomputation, offload",
}
ENGINES = {
    "none": "one GPU, no sharding",
    "zero3": "DeepSpeed ZeRO-3",
    "fsdp2": "PyTorch FSDP2",
    "gemini": "parameters in chunks, as in Colossal-AI's Gemini",
}

Shape = int | list[int]  # what changes between iterations: tokens of a text, the sides of an image


@dataclass(frozen=True)
class Workload:
    """A job of a family, at one point of its grid."""

    id: str
    family: str
    about: str
    task: str  # which of gmlake.workloads.jobs
    model: dict[str, Any]  # configuration class of transformers and its numbers
    engine: str
    strategy: str
    gpus: int
    batch: int
    shapes: str  # the name of the distribution, last part of the id
    distribution: dict[str, Any]
    iterations: int
    seed: int
    suites: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()  # of the paper, in which it appears
    options: dict[str, Any] = field(default_factory=dict)  # of the task

    @property
    def file_name(self) -> str:
        """The name of its trace."""
        return self.id.replace("/", "_") + ".gmt"

    def shape_list(self) -> list[Shape]:
        """The shape of every iteration."""
        return draw(self.distribution, self.iterations, self.seed)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def job(self) -> dict[str, Any]:
        """What the child needs to know."""
        return {
            "task": self.task,
            "model": self.model,
            "engine": self.engine,
            "strategy": self.strategy,
            "batch": self.batch,
            "shapes": self.shape_list(),
            "seed": self.seed,
            "options": self.options,
        }


def draw(distribution: dict[str, Any], count: int, seed: int) -> list[Shape]:
    """So many shapes; the same ones whenever asked."""
    chance = random.Random(seed)
    kind = distribution["kind"]
    if kind == "fixed":
        return [distribution["value"]] * count
    if kind == "choice":
        return [chance.choice(distribution["values"]) for _ in range(count)]
    low, high = distribution["low"], distribution["high"]
    drawn = (round(chance.gauss(distribution["mean"], distribution["deviation"])) for _ in range(count))
    return [min(high, max(low, length)) for length in drawn]
