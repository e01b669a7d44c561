"""Real processes on emulated devices of their own, started by torchrun."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.running import Done, Emulated

JOBS = Path(__file__).parent / "jobs"
TWO = ("torchrun", "--nproc-per-node", "2")
NO_WARNING = {"OMP_NUM_THREADS": "1"}


def torchrun(emulated: Emulated, job: str | Path, *options: object, arguments: tuple[str, ...] = ()) -> Done:
    return emulated.command([*TWO, JOBS / job, *arguments], "--gpus", 2, *options, env=NO_WARNING)


@pytest.mark.parametrize("start", ["lazy", "eager"])
def test_values_go_from_process_to_process(emulated: Emulated, start: str) -> None:
    done = torchrun(emulated, "processes.py", arguments=(start,))
    assert done.status == 0, done.stderr[-4000:]
    assert sorted(done.stdout.splitlines()) == ["rank 0 is done", "rank 1 is done"]
    assert done.report["unimplemented"] == []
    ranks = [process for process in done.report["processes"] if process["rank"] is not None]
    assert [process["rank"] for process in ranks] == [0, 1]
    assert [[device["device"] for device in process["devices"]] for process in ranks] == [[0], [1]]


def test_two_processes_train_as_one(emulated: Emulated) -> None:
    """The mean of the gradients of both halves of a batch is the gradient of the batch."""
    alone = emulated(JOBS / "averaging.py", "--compute")
    assert alone.status == 0, alone.stderr[-4000:]
    both = torchrun(emulated, "averaging.py", "--compute")
    assert both.status == 0, both.stderr[-4000:]
    one, two = ([float(number) for number in done.stdout.split()] for done in (alone, both))
    assert len(one) == 8 * 16 + 16 + 16 * 4 + 4
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) < 1e-11
    assert max(abs(number) for number in one) > 0.1


def test_a_process_that_dies_ends_the_job(emulated: Emulated, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.all_reduce(torch.ones(1, device="cuda"))
if dist.get_rank() == 1:
    os._exit(7)
dist.all_reduce(torch.ones(1, device="cuda"))
"""
    )
    done = torchrun(emulated, job)
    assert done.status == 1
    assert "is gone, so the all-reduce of rank 0 cannot be completed" in done.stderr
