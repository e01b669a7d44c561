"""Every way to a process group, as one rank of four. Started by test_ranks."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

RANKS, RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])


def works(*devices: str) -> None:
    assert (dist.get_world_size(), dist.get_rank()) == (RANKS, RANK)
    for device in devices:
        tensor = torch.tensor([1.0]).to(device)
        dist.all_reduce(tensor)
        assert tensor.item() == RANKS
    dist.new_group([RANK])
    dist.destroy_process_group()


def store_answers(store: Any) -> None:
    store.set("own", "value")
    assert store.get("own") == b"value"
    assert store.add("counter", 1) == RANKS
    assert store.add("counter", 0) == RANKS
    store.set(f"state/{RANK}", "same")
    assert store.get(f"state/{(RANK + 1) % RANKS}") == b"same"
    assert not store.check(["nobody wrote this"])
    store.wait(["nobody wrote this"])
    assert store.compare_set("first", "", "me") == b"me"
    assert store.compare_set("first", "", "you") == b"me"
    try:
        store.get("nobody wrote this")
    except dist.DistStoreError as error:
        assert "nobody wrote this" in str(error)
    else:
        raise AssertionError("a value out of nowhere")


def main() -> None:
    folder = Path(sys.argv[1])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()
    works("cuda")
    dist.init_process_group("gloo")
    works("cpu")
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    pair = dist.new_group(sorted([RANK, (RANK + 1) % RANKS]))
    tensor = torch.tensor([1.0]).cuda()
    dist.all_reduce(tensor, group=pair)
    assert tensor.item() == 2
    parts = [[0, 1], [2, 3]]
    part = dist.split_group(split_ranks=parts)
    assert part is not None and part.size() == 2 and part.rank() == RANK % 2
    dist.all_reduce(tensor, group=part)
    assert tensor.item() == 4
    dist.destroy_process_group()
    for address in ("tcp://localhost:29777", f"file://{folder}/shared", "tcp://10.255.255.1:1"):
        where = {"init_method": address, "rank": RANK, "world_size": RANKS, "timeout": timedelta(seconds=20)}
        dist.init_process_group("cpu:gloo,cuda:nccl", **where)
        works("cuda", "cpu")
    assert not (folder / "shared").exists()
    server = dist.TCPStore("localhost", 29778, RANKS, RANK == 0, timeout=timedelta(seconds=20))
    for store in (server, dist.FileStore(str(folder / "other"), RANKS), dist.HashStore()):
        store_answers(store)
        store_answers(dist.PrefixStore("below", store))
        dist.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=RANK, world_size=RANKS)
        works("cuda", "cpu")


main()
