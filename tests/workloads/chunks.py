"""Chunks must not change what is learnt: run with --compute by test_chunks, prints "same" or fails."""

from __future__ import annotations

import copy
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from gmlake.workloads.jobs import gemini

WIDTH, LAYERS = 32, 6


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out.weight = self.layers[0][0].weight  # tied, as embeddings are

    def forward(self, x: Any) -> Any:
        for number, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if number % 2 else layer(x)
        return self.out(x)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    gemini.CHUNK = 2 * WIDTH * WIDTH  # two layers do not quite fit
    torch.manual_seed(0)
    plain = Model().to("cuda", torch.bfloat16)
    if "frozen" in sys.argv:
        for number in (1, 3):
            plain.layers[number].requires_grad_(False)
    spread = copy.deepcopy(plain)
    weights = [parameter.detach().clone() for parameter in spread.parameters()]
    trainer = gemini.Gemini(spread)
    for parameter, weight in zip(spread.parameters(), weights, strict=True):  # as loading a checkpoint does
        chunk = trainer._chunk_of[id(parameter)]
        chunk.gather()
        parameter.data.copy_(weight)
        chunk.part.copy_(chunk.whole)  # one rank has it all
        chunk.give_back()
        if chunk.master is not None:
            chunk.master.data.copy_(chunk.part)
    assert len(trainer.chunks) > 3
    optimizer = torch.optim.AdamW([p for p in plain.parameters() if p.requires_grad], lr=1e-4, fused=True)
    for step in range(3):
        x = torch.randn(8, WIDTH, device="cuda", dtype=torch.bfloat16)
        expected, found = plain(x).float().square().mean(), spread(x).float().square().mean()
        assert found.item() == expected.item() != 0, (step, found.item(), expected.item())
        expected.backward()
        gradients = {id(s): p.grad for p, s in zip(plain.parameters(), spread.parameters(), strict=True)}
        taken = take_gradients(trainer, found)
        for name, gradient in gradients.items():
            if gradient is not None:
                assert torch.equal(taken[name], gradient.flatten()), (step, name)
        optimizer.zero_grad()
    assert all(not chunk.whole.untyped_storage().nbytes() for chunk in trainer.chunks)
    print("same")
    dist.destroy_process_group()


def take_gradients(trainer: gemini.Gemini, loss: Any) -> dict[int, Any]:
    """The gradient of every parameter, out of the chunk's part, before the step; the step is not made."""
    taken: dict[int, Any] = {}

    def look() -> None:
        for chunk in trainer.chunks:
            if chunk.master is not None:
                offset = 0
                for parameter in trainer.model.parameters():
                    if trainer._chunk_of[id(parameter)] is chunk:
                        size = parameter.numel()
                        taken[id(parameter)] = chunk.master.grad[offset : offset + size].to(torch.bfloat16)
                        offset += size

    step, trainer._optimizer.step = trainer._optimizer.step, look
    trainer.learn(loss)
    trainer._optimizer.step = step
    return taken


main()
