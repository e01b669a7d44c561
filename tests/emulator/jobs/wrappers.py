"""DDP, both kinds of FSDP and a mesh of two by two, as one rank of four. Started by test_ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS = 512, 4
PARAMETERS = LAYERS * (2 * WIDTH * 4 * WIDTH + 5 * WIDTH)


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(x)))


def layers(device: str = "cuda") -> Any:
    with torch.device(device):
        return nn.Sequential(*(Layer() for _ in range(LAYERS)))


def train(model: Any, device: str = "cuda") -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.zeros(64, WIDTH, device=device)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def ddp() -> None:
    model = DistributedDataParallel(layers(), device_ids=[torch.cuda.current_device()])
    train(model)
    host = DistributedDataParallel(layers("cpu"))
    train(host, "cpu")


def fsdp1() -> None:
    model = FullyShardedDataParallel(
        layers(),
        auto_wrap_policy=ModuleWrapPolicy({Layer}),
        device_id=torch.cuda.current_device(),
        sync_module_states=True,
        use_orig_params=True,
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS // 4
    train(model)


def fsdp2() -> None:
    model = layers("meta")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")
    local = sum(parameter.to_local().numel() for parameter in model.parameters())
    assert local == PARAMETERS // 4
    train(model)


def fsdp2_offload() -> None:
    model = layers("cpu")
    for layer in model:
        fully_shard(layer, offload_policy=CPUOffloadPolicy())
    fully_shard(model, offload_policy=CPUOffloadPolicy())
    train(model)


def hybrid() -> None:
    """Sharded in one direction of a mesh, repeated in the other."""
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("repeat", "shard"))
    rank = dist.get_rank()
    assert mesh.get_coordinate() in ([rank // 2, rank % 2], (rank // 2, rank % 2))
    assert (mesh["shard"].size(), mesh["shard"].get_local_rank()) == (2, rank % 2)
    tensor = torch.tensor([1.0]).cuda()
    dist.all_reduce(tensor, group=mesh.get_group("repeat"))
    assert tensor.item() == 2
    model = layers()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    local = sum(parameter.to_local().numel() for parameter in model.parameters())
    assert local == PARAMETERS // 2
    train(model)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    programs: list[Callable[[], None]] = [ddp, fsdp1, fsdp2, fsdp2_offload, hybrid]
    for program in programs:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        program()
        print(program.__name__, torch.cuda.max_memory_allocated() - before)
    dist.destroy_process_group()


main()
