"""PyTorch's fully_shard (FSDP2): every layer is gathered before it computes and sharded again after it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from gmlake.workloads.jobs.job import Job, trained
from gmlake.workloads.jobs.models import layers


class Fsdp2:
    """The sharded model; parameters in float32, computation in bfloat16, with LoRA all in bfloat16."""

    def __init__(self, make: Callable[[], Any], job: Job) -> None:
        """Make the model without memory, shard it, and only then give it memory."""
        mesh = init_device_mesh("cuda", (torch.distributed.get_world_size(),))
        reduced = torch.bfloat16 if job.lora else torch.float32
        options: dict[str, Any] = {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced),
        }
        with torch.device("meta"):
            self.model = make()
        for layer in layers(self.model):
            fully_shard(layer, **options)
        fully_shard(self.model, **options)
        self.model.to_empty(device="cuda")
        self._optimizer = torch.optim.AdamW(trained(self.model), lr=1e-4)

    def learn(self, loss: torch.Tensor) -> None:
        """One step."""
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained(self.model), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def prepare(make: Callable[[], Any], job: Job) -> Fsdp2:
    """Join the other ranks and make the model."""
    if job.offload:
        raise NotImplementedError("parameters on the host are for zero3 only, in this catalogue")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    return Fsdp2(make, job)
