"""Collectives between real processes, each with a device of its own. Started by test_torchrun, by way of torchrun."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
OTHER = 1 - RANK


def put(*numbers: float) -> Any:
    return torch.tensor(numbers).cuda()


def tensors() -> None:
    tensor = put(1, 10 * RANK)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2, 10]
    dist.all_reduce(tensor := put(RANK + 2), dist.ReduceOp.PRODUCT)
    assert tensor.tolist() == [6]
    parts = [put(0, 0) for _ in range(RANKS)]
    dist.all_gather(parts, put(RANK, RANK + 5))
    assert [part.tolist() for part in parts] == [[0, 5], [1, 6]]
    dist.broadcast(tensor := put(RANK, 7), 1)
    assert tensor.tolist() == [1, 7]
    part = put(0)
    dist.reduce_scatter(part, [put(RANK + 1), put(10 * (RANK + 1))])
    assert part.tolist() == [[3], [30]][RANK]
    parts = [put(0), put(0)]
    dist.all_to_all(parts, [put(10 * RANK), put(10 * RANK + 1)])
    assert [part.tolist() for part in parts] == [[RANK], [10 + RANK]]
    gathered = [put(0), put(0)] if RANK == 0 else None
    dist.gather(put(RANK + 1), gathered, 0)
    assert gathered is None or [one.tolist() for one in gathered] == [[1], [2]]
    dist.scatter(part, [put(8), put(9)] if RANK == 1 else None, 1)
    assert part.tolist() == [8 + RANK]


def messages() -> None:
    target = put(0, 0)
    if RANK == 0:
        dist.send(put(3, 4), 1)
        dist.recv(target, 1)
        assert target.tolist() == [5, 6]
    else:
        dist.recv(target, 0)
        assert target.tolist() == [3, 4]
        dist.send(put(5, 6), 0)
    target = put(0)
    operations = [dist.P2POp(dist.irecv, target, OTHER), dist.P2POp(dist.isend, put(RANK), OTHER)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert target.tolist() == [OTHER]


def objects() -> None:
    mine = {"rank": RANK, "text": "x" * 100_000}
    found: list[Any] = [None] * RANKS
    for _ in range(3):
        dist.all_gather_object(found, mine)
        assert [one["rank"] for one in found] == [0, 1]
    listed = [mine, RANK]
    dist.broadcast_object_list(listed, 1)
    assert (listed[0]["rank"], listed[1]) == (1, 1)  # type: ignore[index]
    out: list[Any] = [None]
    dist.scatter_object_list(out, ["for 0", "for 1"] if RANK == 0 else None, 0)
    assert out == [f"for {RANK}"]
    gathered: list[Any] | None = [None] * RANKS if RANK == 1 else None
    dist.gather_object(RANK, gathered, 1)
    assert gathered in (None, [0, 1])
    if RANK == 0:
        dist.send_object_list([mine], 1)
    else:
        dist.recv_object_list(out, 0)
        assert out[0]["rank"] == 0


def groups() -> None:
    alone = [dist.new_group([rank]) for rank in range(RANKS)]
    dist.all_reduce(tensor := put(5), group=alone[RANK])
    assert tensor.tolist() == [5]
    both = dist.new_group([0, 1])
    dist.all_reduce(tensor, group=both)
    assert tensor.tolist() == [10]


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    # Communicators are made when they are needed, or at once and then split.
    dist.init_process_group("nccl", device_id=device if "eager" in sys.argv else None)
    tensors()
    messages()
    objects()
    groups()
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(f"rank {RANK} is done\n")  # at once: the ranks share a pipe


main()
