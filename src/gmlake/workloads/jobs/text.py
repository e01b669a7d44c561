"""Fine-tune a language model on made-up texts: the task of the paper."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from gmlake.workloads.jobs import models, routing
from gmlake.workloads.jobs.job import Job


def model(job: Job) -> Any:
    """A causal language model."""
    found = models.build(AutoModelForCausalLM, job, use_cache=False)
    if "routing" in job.options:
        routing.route_unevenly(found, job)
    return found


def loss(model: Any, job: Job, length: int) -> torch.Tensor:
    """The loss of one batch of texts, padded to `length` tokens."""
    tokens = torch.randint(0, 1000, (job.batch, length)).cuda()
    found: torch.Tensor = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss
    return found
