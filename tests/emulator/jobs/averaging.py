"""Trains a small network, alone or in several processes that share the batch, and prints its weights.

With computed values both must print the same. Started by test_torchrun.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def main() -> None:
    torch.manual_seed(1)
    torch.cuda.set_device(RANK)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).double().cuda()
    if RANKS > 1:
        dist.init_process_group("nccl")
        model = DistributedDataParallel(model, device_ids=[RANK])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(5):
        batch = torch.randn(8, 8, dtype=torch.double)
        share = batch.chunk(RANKS)[RANK].cuda()
        model(share).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if RANK == 0:
        print(" ".join(f"{number:.12f}" for parameter in model.parameters() for number in parameter.flatten().tolist()))
    if RANKS > 1:
        dist.destroy_process_group()


main()
