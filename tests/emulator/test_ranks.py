"""One process as one rank of four, through the real torch.distributed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.running import Done, Emulated

JOBS = Path(__file__).parent / "jobs"
MIB = 1 << 20


def succeeded(done: Done) -> Done:
    assert done.status == 0, done.stderr[-4000:]
    assert done.report["unimplemented"] == []
    return done


@pytest.mark.parametrize("rank", [0, 3])
def test_collectives(emulated: Emulated, rank: int) -> None:
    """On CUDA and CPU tensors and Python objects, in the world and in parts of it."""
    succeeded(emulated(JOBS / "collectives.py", "--world-size", 4, "--rank", rank))


@pytest.mark.parametrize("rank", [0, 2])
def test_every_way_to_a_process_group(emulated: Emulated, tmp_path: Path, rank: int) -> None:
    succeeded(emulated(JOBS / "rendezvous.py", "--world-size", 4, "--rank", rank, arguments=(tmp_path,)))


def test_wrappers_hold_what_a_rank_of_four_would(emulated: Emulated) -> None:
    done = succeeded(emulated(JOBS / "wrappers.py", "--world-size", 4))
    peaks = {name: int(size) for name, size in (line.split() for line in done.stdout.splitlines())}
    # Four layers of 2 M parameters of 4 bytes: a copy is 32 MiB, a layer 8 MiB.
    assert 6 * 32 * MIB < peaks["ddp"] < 7 * 32 * MIB  # weights, gradients, their buckets, two moments, a temporary
    for name in ("fsdp1", "fsdp2", "fsdp2_offload"):
        assert 24 * MIB < peaks[name] < 48 * MIB, (name, peaks)  # a quarter of four copies, and a layer or two
    assert peaks["fsdp2"] < peaks["hybrid"] < peaks["ddp"]


def test_a_rank_far_up_in_a_large_job(emulated: Emulated) -> None:
    """No process and no thread per rank."""
    program = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group()
torch.cuda.set_device(dist.get_node_local_rank())
model = fully_shard(torch.nn.Linear(4096, 4096, device="cuda"))
print(sum(p.to_local().numel() for p in model.parameters()), torch.cuda.current_device())
model(torch.zeros(1, 4096, device="cuda")).sum().backward()
"""
    done = succeeded(emulated(program, "--world-size", 512, "--rank", 507))
    assert done.stdout.split() == [str(4096 * 4096 // 512 + 4096 // 512), "3"]


def test_a_key_that_only_another_rank_would_write(emulated: Emulated) -> None:
    program = "import torch.distributed as dist; dist.TCPStore('localhost', 1, 4, False).get('made by rank 0')"
    done = emulated(program, "--world-size", 4, "--rank", 1)
    assert done.status == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "only another rank would write the key 'made by rank 0' of the store" in last
    assert "rank 1 of 4" in last
