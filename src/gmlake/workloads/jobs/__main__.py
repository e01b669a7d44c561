"""Train as the job says."""

from __future__ import annotations

import importlib
import json
import random
import sys
import time

import torch

from gmlake.workloads.jobs.job import Job, Trainer


def main() -> None:
    """One training run: a step for every shape, and a line about each."""
    job = Job(**json.loads(sys.argv[1]))
    random.seed(job.seed)
    torch.manual_seed(job.seed)
    task = importlib.import_module(f"gmlake.workloads.jobs.{job.task}")
    engine = importlib.import_module(f"gmlake.workloads.jobs.{job.engine}")
    trainer: Trainer = engine.prepare(lambda: task.model(job), job)
    for number, shape in enumerate(job.shapes):
        started = time.monotonic()
        trainer.learn(task.loss(trainer.model, job, shape))
        print(json.dumps({"iteration": number, "shape": shape, "seconds": time.monotonic() - started}), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


main()
