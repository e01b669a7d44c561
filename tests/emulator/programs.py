"""Programs for the real PyTorch, run in one process and one history of its allocator. Started by test_rivals.

    python programs.py OUTPUT NAME...

OUTPUT gets, as JSON, the events of the history, when empty_cache was called and graphs ended (as allocations and frees
so far), where each program begins, and how much memory was free at first.
"""

from __future__ import annotations

import contextlib
import gc
import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

KIB, MIB = 1 << 10, 1 << 20
CUDA = torch.device("cuda")
notes: list[tuple[str, int, int]] = []  # what happened after so many allocations and frees


def note(what: str) -> None:
    count = torch._C._cuda_memoryStats(0)["allocation"]["all"]
    notes.append((what, count["allocated"], count["freed"]))


def empty_cache() -> None:
    note("trim")
    torch.cuda.empty_cache()


def layers(width: int, count: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count))
    )


def train(model: nn.Module, batches: list[Any], optimizer: Any = None, loss: Any = None) -> None:
    optimizer = optimizer or torch.optim.AdamW(model.parameters())
    for batch in batches:
        (loss or (lambda x: model(x).square().mean()))(batch).backward()
        optimizer.step()
        optimizer.zero_grad()


def mlp() -> None:
    """A network of linear layers, fixed shapes."""
    train(layers(512, 6).to(CUDA), [torch.empty(700, 512, device=CUDA) for _ in range(4)])


def transformer() -> None:
    """Attention, norms, dropout, an embedding and a loss over a vocabulary, in autocast."""
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(5000, 256), nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(256, 5000)
    ).to(CUDA)

    def loss(ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    batches = [torch.zeros(6, 40 * n, dtype=torch.long, device=CUDA) for n in (1, 3, 2, 3)]
    train(model, batches, loss=loss)


def checkpointing() -> None:
    """Activations are computed again in the backward pass."""
    model = layers(768, 8).to(CUDA)

    def loss(x: torch.Tensor) -> torch.Tensor:
        for part in model:
            x = checkpoint(part, x, use_reentrant=False)
        return x.square().mean()

    train(model, [torch.empty(900, 768, device=CUDA) for _ in range(3)], loss=loss)


def offload() -> None:
    """Activations wait in pinned memory of the host."""
    model = layers(512, 5).to(CUDA)

    def loss(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return model(x).square().mean()

    train(model, [torch.empty(600, 512, device=CUDA) for _ in range(3)], loss=loss)


def streams() -> None:
    """Tensors of one stream are used on others, and freed while those may still be at work."""
    chance = random.Random(1)
    side = [torch.cuda.Stream() for _ in range(3)]
    held: list[torch.Tensor] = []
    for _ in range(400):
        with torch.cuda.stream(chance.choice([torch.cuda.default_stream(), *side])):
            held.append(
                torch.empty(chance.choice([3, 700, 900 * KIB, 3 * MIB, 12 * MIB]), dtype=torch.uint8, device=CUDA)
            )
        if chance.random() < 0.5:
            user = chance.choice(side)
            with torch.cuda.stream(user):
                held[-1].add_(1)
            held[-1].record_stream(user)
        if len(held) > 30:
            del held[chance.randrange(len(held))]
        if chance.random() < 0.02:
            torch.cuda.synchronize()


def varying() -> None:
    """Another length in every iteration."""
    chance = random.Random(2)
    train(layers(640, 5).to(CUDA), [torch.empty(chance.randrange(50, 1500), 640, device=CUDA) for _ in range(12)])


def optimizers() -> None:
    """Foreach, fused and neither, with clipping and accumulated gradients."""
    for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
        model = layers(384, 6).to(CUDA)
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        for batch in range(4):
            model(torch.empty(333 + batch, 384, device=CUDA)).square().mean().backward()
            if batch % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()


def graphs() -> None:
    """Captured work has a private pool; between captures ordinary work goes on."""
    model = layers(512, 3).to(CUDA)
    x = torch.empty(512, 512, device=CUDA)
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.synchronize()
        captured = []
        for rows in (512, 300):
            graph = torch.cuda.CUDAGraph()
            note("trim")  # which entering a capture does
            with torch.cuda.graph(graph):
                y = model(x[:rows])
            captured.append((graph, y))
            model(torch.empty(1000, 512, device=CUDA))
        for graph, _ in captured:
            graph.replay()
    pool = captured[0][0].pool()
    del graph, y
    captured.pop(0)[0].reset()
    note(f"release {pool[0]} {pool[1]}")
    empty_cache()
    model(torch.empty(2000, 512, device=CUDA))
    pool = captured[0][0].pool()
    captured.pop()[0].reset()
    note(f"release {pool[0]} {pool[1]}")


def pools() -> None:
    """Pools that the program makes itself."""
    mine, other = torch.cuda.MemPool(), torch.cuda.MemPool()
    chance = random.Random(7)
    held: list[torch.Tensor] = []
    for _ in range(150):
        size = chance.choice([1000, 700 * KIB, 3 * MIB, 15 * MIB, 40 * MIB])
        pool = chance.choice([mine, other, None])
        with torch.cuda.use_mem_pool(pool) if pool is not None else contextlib.nullcontext():
            held.append(torch.empty(size, dtype=torch.uint8, device=CUDA))
        if len(held) > 20:
            del held[chance.randrange(len(held))]
    held.clear()
    for pool in (mine, other):
        note(f"release {pool.id[0]} {pool.id[1]}")


def small() -> None:
    """Thousands of tensors below a megabyte."""
    chance = random.Random(3)
    held: list[torch.Tensor] = []
    for _ in range(6000):
        size = int(2 ** chance.uniform(0, 20.2))
        held.append(torch.empty(size, dtype=torch.uint8, device=CUDA))
        if len(held) > 400 or chance.random() < 0.2:
            del held[chance.randrange(len(held))]


def edges() -> None:
    """Sizes around every threshold, freed in another order."""
    chance = random.Random(4)
    marks = [1, 512, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 21 * MIB, 64 * MIB]
    held = []
    for _ in range(60):
        held += [torch.empty(max(1, m + d), dtype=torch.uint8, device=CUDA) for m in marks for d in (-1, 0, 1, 511)]
        chance.shuffle(held)
        del held[len(held) // chance.choice([2, 3, 4]) :]
        if chance.random() < 0.1:
            empty_cache()


def emptied() -> None:
    """The cache is given back between iterations, as some programs do."""
    model = layers(512, 4).to(CUDA)
    for rows in (100, 2000, 700, 1500):
        train(model, [torch.empty(rows, 512, device=CUDA)])
        empty_cache()


def threads() -> None:
    """Four threads, each on a stream of its own."""

    def work(seed: int) -> None:
        chance = random.Random(seed)
        held: list[torch.Tensor] = []
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(300):
                held.append(
                    torch.empty(
                        chance.choice([100, 5 * KIB, 2 * MIB, 9 * MIB, 30 * MIB]), dtype=torch.uint8, device=CUDA
                    )
                )
                if len(held) > 6:
                    del held[chance.randrange(len(held))]

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def crowded() -> None:
    """For a small card: the cache must be given back and the request made again, sometimes in vain."""
    chance = random.Random(5)
    held: list[torch.Tensor] = []
    failed = 0
    for _ in range(1500):
        try:
            held.append(torch.empty(int(2 ** chance.uniform(10, 27)), dtype=torch.uint8, device=CUDA))
        except torch.OutOfMemoryError:
            failed += 1
            del held[: len(held) // 2]
        if chance.random() < 0.45 and held:
            del held[chance.randrange(len(held))]
    assert failed > 5
    assert torch.cuda.memory_stats()["num_alloc_retries"] > failed


def crowded_streams() -> None:
    """The same with four streams: what another stream still uses is waited for."""
    chance = random.Random(6)
    side = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
    held: list[torch.Tensor] = []
    for _ in range(900):
        try:
            with torch.cuda.stream(chance.choice(side)):
                held.append(torch.empty(int(2 ** chance.uniform(14, 26)), dtype=torch.uint8, device=CUDA))
            user = chance.choice(side)
            with torch.cuda.stream(user):
                held[-1].add_(1)
            held[-1].record_stream(user)
        except torch.OutOfMemoryError:
            del held[: len(held) // 2]
        if chance.random() < 0.4 and held:
            del held[chance.randrange(len(held))]


def main() -> None:
    """Run the programs that are named, and write what they did."""
    output, names = Path(sys.argv[1]), sys.argv[2:]
    torch.backends.cudnn.enabled = False
    torch.cuda.init()
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=5_000_000)
    for name in names:
        note(f"program {name}")
        program: Callable[[], None] = globals()[name]
        program()
        gc.collect()
        empty_cache()
    gc.disable()
    snapshot = torch.cuda.memory._snapshot()
    events = [
        {key: event.get(key) for key in ("action", "addr", "size", "stream", "pool_id")}
        for event in snapshot["device_traces"][0]
    ]
    reserved = torch._C._cuda_memoryStats(0)["reserved_bytes"]["all"]
    retries = torch._C._cuda_memoryStats(0)["num_alloc_retries"]
    found = {"events": events, "notes": notes, "free": free, "reserved": reserved, "retries": retries}
    output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
