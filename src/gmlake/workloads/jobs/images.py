"""Train a vision transformer; the side of the images may differ from step to step, as in progressive resizing."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForImageClassification

from gmlake.workloads.jobs import models
from gmlake.workloads.jobs.job import Job


def model(job: Job) -> Any:
    """A classifier of images."""
    return models.build(AutoModelForImageClassification, job, num_labels=1000)


def loss(model: Any, job: Job, side: int) -> torch.Tensor:
    """The loss of a batch of square images."""
    images = torch.empty(job.batch, 3, side, side, dtype=torch.bfloat16, device="cuda")
    labels = torch.zeros(job.batch, dtype=torch.long, device="cuda")
    found: torch.Tensor = model(pixel_values=images, labels=labels, interpolate_pos_encoding=True).loss
    return found
