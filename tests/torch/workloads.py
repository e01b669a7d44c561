"""Small models, each trained a few steps with another technique. Run by test_steps:

    python workloads.py NAME...

Prints, as JSON, what every step of every workload needed and, where values are real, its loss and the sum of the final
parameters as bits.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

CUDA = torch.device("cuda")
found: dict[str, list[dict[str, Any]]] = {}


def layers(width: int, count: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count))
    )


def blocks(width: int, count: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)


def batch(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(CUDA)


def needed(loss: torch.Tensor | None = None) -> dict[str, Any]:
    statistics = torch.cuda.memory_stats()
    return {
        "requested": statistics["requested_bytes.all.current"],
        "peak_requested": statistics["requested_bytes.all.peak"],
        "allocated": torch.cuda.memory_allocated(),
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "loss": None if loss is None else loss.item().hex(),
    }


def train(
    name: str, model: nn.Module, batches: list[Any], loss_of: Callable[[Any], torch.Tensor], optimizer: Any = None
) -> None:
    optimizer = optimizer or torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for data in batches:
        loss = loss_of(data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found[name].append(needed(loss.detach()))
        del loss
    total = float(sum(float(p.detach().double().sum()) for p in model.parameters()))
    found[name].append({"parameters": total.hex()})


def plain() -> None:
    """Linear layers, fixed shapes."""
    model = layers(256, 4).to(CUDA)
    train("plain", model, [batch(500, 256) for _ in range(4)], lambda x: model(x).square().mean())


def varied() -> None:
    """Another length in every step, mixed precision."""
    model = nn.Sequential(nn.Linear(128, 128), blocks(128, 2)).to(CUDA)

    def loss(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).float().square().mean()

    train("varied", model, [batch(4, length, 128) for length in (40, 160, 80, 200, 120)], loss)


def recomputed() -> None:
    """Activations are computed again in the backward pass."""
    model = layers(256, 6).to(CUDA)

    def loss(x: torch.Tensor) -> torch.Tensor:
        for part in model:
            x = checkpoint(part, x, use_reentrant=False)
        return x.square().mean()

    train("recomputed", model, [batch(900, 256) for _ in range(4)], loss)


def offloaded() -> None:
    """Activations wait in pinned memory of the host."""
    model = layers(256, 4).to(CUDA)

    def loss(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return model(x).square().mean()

    train("offloaded", model, [batch(700, 256) for _ in range(3)], loss)


class Adapted(nn.Module):  # type: ignore[misc]
    """A frozen layer and two thin ones that are trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 8, bias=False), nn.Linear(8, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.base(x) + self.up(self.down(x)))


def lora() -> None:
    """Low-rank adaptation: most parameters have no gradient."""
    model = nn.Sequential(*(Adapted(512) for _ in range(5))).to(CUDA)
    train("lora", model, [batch(600, 512) for _ in range(3)], lambda x: model(x).square().mean())


class Experts(nn.Module):  # type: ignore[misc]
    """Each token goes to the best two of four experts, as many to each as fit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.ModuleList(layers(width, 1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.gate(x).softmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = weight[:, number].topk(len(x) // 2)
            out = out.index_add(0, chosen.indices, chosen.values[:, None] * expert(x[chosen.indices]))
        return out


def experts() -> None:
    """A mixture of experts."""
    model = nn.Sequential(Experts(128), Experts(128)).to(CUDA)
    train("experts", model, [batch(800, 128) for _ in range(3)], lambda x: model(x).square().mean())


def convolutions() -> None:
    """A network for pictures, with another optimizer."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 10),
    ).to(CUDA)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train("convolutions", model, [batch(8, 3, 64, 64) for _ in range(3)], lambda x: model(x).square().mean(), optimizer)


def accumulated() -> None:
    """Gradients of several batches, clipped; loss over a vocabulary."""
    model = nn.Sequential(nn.Embedding(2000, 128), blocks(128, 2), nn.Linear(128, 2000)).to(CUDA)

    def loss(ids: torch.Tensor) -> torch.Tensor:
        for part in ids.chunk(2)[:-1]:
            nn.functional.cross_entropy(model(part).flatten(0, 1), part.flatten()).backward()
        last = ids.chunk(2)[-1]
        total = nn.functional.cross_entropy(model(last).flatten(0, 1), last.flatten())
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
        return total

    train("accumulated", model, [torch.randint(0, 2000, (6, 50)).to(CUDA) for _ in range(3)], loss)


def captured() -> None:
    """The forward pass of a step is a CUDA graph, replayed with other data."""
    model = layers(256, 2).to(CUDA)
    parts = torch.cuda.make_graphed_callables(model, (torch.randn(300, 256, device=CUDA, requires_grad=True),))
    train("captured", model, [batch(300, 256) for _ in range(3)], lambda x: parts(x).square().mean())


def overlapped() -> None:
    """Copies on one stream and work on another."""
    model = layers(256, 3).to(CUDA)
    side = torch.cuda.Stream()

    def loss(x: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            copy = x * 2
        torch.cuda.current_stream().wait_stream(side)
        copy.record_stream(torch.cuda.current_stream())
        return model(copy).square().mean()

    train("overlapped", model, [batch(400, 256) for _ in range(4)], loss)


def main() -> None:
    """Run the workloads one after the other; each begins with an empty cache and fresh peaks."""
    for name in sys.argv[1:]:
        torch.manual_seed(7)
        found[name] = []
        globals()[name]()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    print(json.dumps(found))


main()
