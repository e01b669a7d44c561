"""Uneven routes through a mixture of experts, drawn on the host instead of computed, because nothing is computed.

Every layer and every step draws how many tokens go to which expert: popularity falls as 1 / rank^skew, in an order of
its own for every layer, with some noise from step to step. The experts then do what transformers' eager
implementation does, one after the other, with so many tokens each.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from gmlake.workloads.jobs.job import Job


def route_unevenly(model: Any, job: Job) -> None:
    """Give every module of experts routes of its own."""
    skew = float(job.options["routing"]["skew"])
    found = [module for module in model.modules() if hasattr(module, "gate_up_proj") and hasattr(module, "num_experts")]
    for number, module in enumerate(found):
        module.forward = Experts(module, random.Random(f"{job.seed}/{number}"), skew)


class Experts:
    """The forward pass of one layer's experts."""

    def __init__(self, module: Any, chance: random.Random, skew: float) -> None:
        """Choose which experts are popular."""
        self._module = module
        self._chance = chance
        self._popularity = [1 / (place + 1) ** skew for place in range(module.num_experts)]
        chance.shuffle(self._popularity)
        self._drawn: dict[int, list[int]] = {}  # of this step: recomputation must find the same routes

    def __call__(self, hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """As the eager implementation, but the number of tokens of an expert is drawn."""
        module = self._module
        result = torch.zeros_like(hidden)
        for expert, tokens in enumerate(self._counts(index.numel(), hidden.shape[0])):
            if tokens == 0:
                continue
            position, token = (torch.zeros(tokens, dtype=torch.long, device=hidden.device) for _ in range(2))
            gate, up = torch.nn.functional.linear(hidden[token], module.gate_up_proj[expert]).chunk(2, dim=-1)
            made = torch.nn.functional.linear(module.act_fn(gate) * up, module.down_proj[expert])
            made = made * weights[token, position, None]
            result.index_add_(0, token, made.to(result.dtype))
        return result

    def _counts(self, routes: int, tokens: int) -> list[int]:
        """Tokens of every expert; the backward pass of the same step asks again and gets the same."""
        recomputing = torch._C._current_graph_task_id() != -1
        if not recomputing or routes not in self._drawn:
            wanted = [popular * self._chance.uniform(0.7, 1.3) for popular in self._popularity]
            share = routes / sum(wanted)
            self._drawn = {routes: [min(tokens, round(one * share)) for one in wanted]}
        return self._drawn[routes]
