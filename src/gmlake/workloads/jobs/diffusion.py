"""Train a diffusion transformer (DiT) on latents of images in several aspect ratios.

The model is written here, after the published architecture: patches of latents, blocks of attention and MLP whose
norms are scaled, shifted and gated by the embedded time step and class. diffusers would bring far more than is needed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from gmlake.workloads.jobs.job import Job

PATCH, CHANNELS = 2, 4


class Block(nn.Module):  # type: ignore[misc]
    """Attention and MLP, modulated by the condition."""

    def __init__(self, width: int, heads: int) -> None:
        """All parameters of one layer."""
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """One layer."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(silu(condition))[:, None].chunk(6, dim=-1)
        x = x + gate1 * self._attend(self.norm1(x) * (1 + scale1) + shift1)
        y: torch.Tensor = x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)
        return y

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed: torch.Tensor = self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return mixed


class DiT(nn.Module):  # type: ignore[misc]
    """Predicts the noise in latents, given the time step and the class."""

    def __init__(self, width: int, depth: int, heads: int, classes: int, recompute: bool) -> None:
        """The whole model."""
        super().__init__()
        self.recompute = recompute
        self.patches = nn.Conv2d(CHANNELS, width, PATCH, stride=PATCH)
        self.times = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.classes = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, PATCH * PATCH * CHANNELS))

    def forward(self, latents: torch.Tensor, time: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """The noise, in patches."""
        x = self.patches(latents).flatten(2).transpose(1, 2)
        frequency = torch.exp(-math.log(10000) * torch.arange(128, device=time.device) / 128)
        angle = time[:, None] * frequency
        condition = self.times(torch.cat([angle.cos(), angle.sin()], dim=-1).to(x.dtype)) + self.classes(label)
        for block in self.blocks:
            x = checkpoint(block, x, condition, use_reentrant=False) if self.recompute else block(x, condition)
        found: torch.Tensor = self.last(x)
        return found


def model(job: Job) -> Any:
    """A diffusion transformer."""
    made = DiT(**job.model["numbers"], recompute=job.recompute)
    return made if job.full_precision else made.to(torch.bfloat16)


def loss(model: Any, job: Job, sides: list[int]) -> torch.Tensor:
    """The loss of a batch of latents of these sides."""
    height, width = sides
    latents = torch.randn(job.batch, CHANNELS, height, width, device="cuda", dtype=torch.bfloat16)
    noise = torch.randn_like(latents)
    time = torch.rand(job.batch, device="cuda")
    noisy = latents + time[:, None, None, None].to(latents.dtype) * noise
    label = torch.zeros(job.batch, dtype=torch.long, device="cuda")
    target = nn.functional.unfold(noise, PATCH, stride=PATCH).transpose(1, 2)
    return mse_loss(model(noisy, time, label).float(), target.float())
