"""Every collective of torch.distributed, as one rank of four that hold the same. Started by test_ranks."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

RANKS, RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])


def values(tensor: Any) -> list[Any]:
    found = tensor.cpu().tolist()
    assert isinstance(found, list)
    return found


class On:
    """The collectives on one kind of device. Values come from the host: kernels of the device do nothing."""

    def __init__(self, device: str, group: Any = None) -> None:
        self.device = device
        self.group = group
        self.ranks = dist.get_world_size(group)
        self.rank = dist.get_rank(group)

    def put(self, *numbers: float, dtype: Any = torch.float32) -> Any:
        return torch.tensor(numbers, dtype=dtype).to(self.device)

    def reductions(self) -> None:
        op = dist.ReduceOp
        expected = [
            (op.SUM, [self.ranks * 3, self.ranks * 5]),
            (op.PRODUCT, [3**self.ranks, 5**self.ranks]),
            (op.MAX, [3, 5]),
            (op.MIN, [3, 5]),
            (op.AVG, [3, 5]),
        ]
        for operator, result in expected:
            for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.float16):
                if operator == op.PRODUCT and dtype in (torch.bfloat16, torch.float16):
                    continue  # it would round
                tensor = self.put(3, 5, dtype=dtype)
                dist.all_reduce(tensor, operator, self.group)
                assert values(tensor) == result, (operator, dtype, values(tensor))
        tensor = self.put(1, 2)
        dist.reduce(tensor, self.me(), group=self.group)
        assert values(tensor) == [self.ranks, 2 * self.ranks]
        work = dist.all_reduce(tensor, group=self.group, async_op=True)
        work.wait()
        assert work.is_completed()
        assert values(tensor) == [self.ranks**2, 2 * self.ranks**2]

    def gathers(self) -> None:
        parts = [self.put(0, 0) for _ in range(self.ranks)]
        dist.all_gather(parts, self.put(7, 8), self.group)
        assert [values(part) for part in parts] == [[7, 8]] * self.ranks
        whole = self.put(*[0] * 2 * self.ranks)
        dist.all_gather_into_tensor(whole, self.put(7, 8), self.group)
        assert values(whole) == [7, 8] * self.ranks
        parts = [self.put(0, 0) for _ in range(self.ranks)]
        dist.gather(self.put(1, 2), parts, self.me(), self.group)
        assert [values(part) for part in parts] == [[1, 2]] * self.ranks

    def scatters(self) -> None:
        numbers = list(range(2 * self.ranks))
        own = numbers[2 * self.rank : 2 * self.rank + 2]
        part, whole = self.put(0, 0), self.put(*numbers)
        dist.reduce_scatter_tensor(part, whole, group=self.group)
        assert values(part) == [self.ranks * number for number in own]
        dist.reduce_scatter(part, list(whole.cpu().to(self.device).split(2)), op=dist.ReduceOp.AVG, group=self.group)
        assert values(part) == own, values(part)
        part = self.put(0, 0)
        dist.scatter(part, list(whole.split(2)), self.me(), self.group)
        assert values(part) == own
        dist.broadcast(part, self.me(), self.group)
        assert values(part) == own

    def exchanges(self) -> None:
        numbers = list(range(2 * self.ranks))
        own = numbers[2 * self.rank : 2 * self.rank + 2]
        whole, result = self.put(*numbers), self.put(*[0] * 2 * self.ranks)
        dist.all_to_all_single(result, whole, group=self.group)
        assert values(result) == own * self.ranks
        parts = [self.put(0, 0) for _ in range(self.ranks)]
        dist.all_to_all(parts, list(whole.split(2)), self.group)
        assert [values(part) for part in parts] == [own] * self.ranks
        # Parts of different sizes: everybody sends us what we send to ourselves.
        sizes = [rank + 1 for rank in range(self.ranks)]
        whole = self.put(*range(sum(sizes)))
        begin = sum(sizes[: self.rank])
        result = self.put(*[0] * sizes[self.rank] * self.ranks)
        dist.all_to_all_single(result, whole, [sizes[self.rank]] * self.ranks, sizes, self.group)
        assert values(result) == list(range(begin, begin + sizes[self.rank])) * self.ranks

    def messages(self) -> None:
        # Of a size of their own: in a group of two, what a scatter sends looks like a message.
        right, left = self.neighbour(1), self.neighbour(-1)
        target = self.put(0, 0, 0)
        dist.send(self.put(4, 5, 6), right, self.group)
        dist.recv(target, left, self.group)
        assert values(target) == [4, 5, 6]
        target = self.put(0, 0, 0)
        operations = [
            dist.P2POp(dist.irecv, target, left, self.group),
            dist.P2POp(dist.isend, self.put(7, 8, 9), right, self.group),
        ]
        if self.device == "cpu":
            operations.reverse()
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert values(target) == [7, 8, 9]

    def me(self) -> int:
        return int(dist.get_rank())

    def neighbour(self, step: int) -> int:
        ranks = dist.get_process_group_ranks(self.group)
        return int(ranks[(self.rank + step) % self.ranks])

    def all(self) -> None:
        self.reductions()
        self.gathers()
        self.scatters()
        self.exchanges()
        self.messages()
        dist.barrier(self.group)


def objects(group: Any = None) -> None:
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    large = {"rank": RANK, "text": "x" * 200_000}  # more than the device keeps of a tensor
    found: list[Any] = [None] * ranks
    dist.all_gather_object(found, large, group)
    assert found == [large] * ranks
    assert found[0] is not large and found[0] is not found[1]
    found = [None] * ranks
    dist.gather_object(large, found, dist.get_rank(), group)
    assert found == [large] * ranks
    listed = [large, 3, None]
    dist.broadcast_object_list(listed, dist.get_rank(), group)
    assert listed == [large, 3, None]
    out: list[Any] = [None]
    dist.scatter_object_list(out, [f"part {number}" for number in range(ranks)], dist.get_rank(), group)
    assert out == [f"part {rank}"]
    neighbour = dist.get_process_group_ranks(group)[(rank + 1) % ranks]
    dist.send_object_list([large], neighbour, group)
    out = [None]
    dist.recv_object_list(out, neighbour, group)
    assert out == [large]


def from_another_rank() -> None:
    """What nobody can know stays as it is."""
    other = (RANK + 1) % RANKS
    for device in ("cuda", "cpu"):
        tensor = torch.tensor([1.0, 2.0]).to(device)
        dist.broadcast(tensor, other)
        assert values(tensor) == [1, 2]
        dist.scatter(tensor, None, other)
        assert values(tensor) == [1, 2]
        dist.reduce(tensor, other)
        assert values(tensor) == [1, 2]
        dist.gather(tensor, None, other)
    listed = ["own"]
    dist.broadcast_object_list(listed, other)
    assert listed == ["own"]


def main() -> None:
    dist.init_process_group("cpu:gloo,cuda:nccl")
    assert (dist.get_world_size(), dist.get_rank()) == (RANKS, RANK) == (4, RANK)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for device in ("cuda", "cpu"):
        On(device).all()
    factor = dist._make_nccl_premul_sum(0.5)
    tensor = torch.tensor([1.0, 3.0]).cuda()
    dist.all_reduce(tensor, factor)
    assert values(tensor) == [2, 6]
    objects()
    from_another_rank()
    pair = dist.new_group(sorted([RANK, (RANK + 2) % 4]))
    alone = dist.new_group([(RANK + 1) % 4, (RANK + 2) % 4])
    assert alone == dist.GroupMember.NON_GROUP_MEMBER
    for device in ("cuda", "cpu"):
        On(device, pair).all()
    objects(pair)
    hosts = dist.new_group(backend="gloo")
    assert dist.get_backend(hosts) == "gloo"
    On("cpu", hosts).all()
    On("cuda", hosts).reductions()
    dist.monitored_barrier(hosts)
    dist.destroy_process_group()


main()
