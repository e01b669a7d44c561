"""Models of Hugging Face's transformers from their configurations alone: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model

from gmlake.workloads.jobs.job import Job


def build(auto: Any, job: Job, **more: Any) -> Any:
    """The model of the job, with adapters and recomputation if its strategy has them."""
    config = getattr(transformers, job.model["config"])(**job.model["numbers"], **more)
    model = auto.from_config(
        config,
        dtype=torch.float32 if job.full_precision else torch.bfloat16,
        attn_implementation=job.model["attention"],
    )
    if job.lora:
        model = get_peft_model(model, LoraConfig(r=8, lora_dropout=0.05, target_modules=job.model["lora"]))
    model.train()
    if job.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if job.lora:
            model.enable_input_require_grads()
    return model


def layers(model: Any) -> list[Any]:
    """The layers that repeat: what is sharded and gathered together."""
    lists = [list(module) for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len)
