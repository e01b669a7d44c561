"""DeepSpeed's ZeRO-3: parameters, gradients and optimizer state in equal parts on all ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import deepspeed
import torch
from transformers.integrations import HfDeepSpeedConfig

from gmlake.workloads.jobs.host import HostAdam, skip_host_work
from gmlake.workloads.jobs.job import Job, trained


class Zero3:
    """DeepSpeed's engine."""

    def __init__(self, make: Callable[[], Any], job: Job) -> None:
        """Make the model in parts: transformers asks `HfDeepSpeedConfig` whether it should."""
        settings = configuration(job)
        self._alive = HfDeepSpeedConfig(settings)
        model = make()
        parameters = trained(model)
        optimizer = HostAdam(parameters) if job.offload else torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        self.model, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)

    def learn(self, loss: torch.Tensor) -> None:
        """One step."""
        self.model.backward(loss)
        del loss
        self.model.step()


def configuration(job: Job) -> dict[str, Any]:
    """DeepSpeed's settings; what is not here is its default."""
    zero: dict[str, Any] = {"stage": 3, "overlap_comm": True, "contiguous_gradients": True}
    if job.offload:
        zero |= {part: {"device": "cpu"} for part in ("offload_optimizer", "offload_param")}
    return {
        "train_micro_batch_size_per_gpu": job.batch,
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }


def prepare(make: Callable[[], Any], job: Job) -> Zero3:
    """Join the other ranks and make the model."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed()
    if job.offload:
        skip_host_work()
    return Zero3(make, job)
