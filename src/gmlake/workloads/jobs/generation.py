"""Reinforcement learning: every step writes texts, with a growing key-value cache, and then learns from them."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from gmlake.workloads.jobs import models
from gmlake.workloads.jobs.job import Job


def model(job: Job) -> Any:
    """A causal language model."""
    return models.build(AutoModelForCausalLM, job, use_cache=False)


def loss(model: Any, job: Job, length: int) -> torch.Tensor:
    """Write `options.written` tokens after prompts of `length`, score them, and return the policy's loss."""
    prompts = torch.randint(0, 1000, (job.batch, length)).cuda()
    tokens = write(model, prompts, job.options["written"])
    mask = torch.ones_like(tokens)
    logits = model(input_ids=tokens, attention_mask=mask).logits[:, length - 1 : -1]
    chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, tokens[:, length:, None]).squeeze(-1)
    reward = torch.zeros(job.batch, 1, device=chosen.device)
    return -(chosen * reward).mean()


@torch.no_grad()  # type: ignore[untyped-decorator]
def write(model: Any, prompts: torch.Tensor, count: int) -> torch.Tensor:
    """The prompts and `count` sampled tokens; the cache grows with each and is gone at the end."""
    model.eval()  # recomputation would not let the cache be used
    cache = DynamicCache()
    tokens = new = prompts
    for _ in range(count):
        logits = model(
            input_ids=new, attention_mask=torch.ones_like(tokens), past_key_values=cache, use_cache=True
        ).logits[:, -1]
        new = torch.multinomial(torch.softmax(logits.float(), dim=-1), 1)
        tokens = torch.cat([tokens, new], dim=-1)
    model.train()
    return tokens
