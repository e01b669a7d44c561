"""A thousand random programs on the real PyTorch: sizes, streams, threads, record_stream, graph pools, empty_cache,
out of memory, with data written to every piece of every block and looked at again. Run by test_random_programs:

    python random_programs.py PROGRAMS FIRST_SEED

Every block carries its own number at every second megabyte, at its beginning and at its end. No chunk is smaller, so
that memory which two blocks have at once shows, under whatever addresses. Prints how much was done, as JSON.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import torch

from gmlake import _core

KIB, MIB = 1 << 10, 1 << 20
TAG = 8  # bytes of a number
STEP = 2 * MIB
done: Counter[str] = Counter()
numbers = iter(range(1, 1 << 62))
guard = threading.Lock()


class Block:
    """A tensor with its number in it."""

    def __init__(self, size: int) -> None:
        self.tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        with guard:
            self.tag = torch.tensor(list(next(numbers).to_bytes(TAG, "little")), dtype=torch.uint8)
        for place in self.places():
            self.tensor[place : place + TAG].copy_(self.tag)

    def places(self) -> list[int]:
        size = self.tensor.numel()
        if size < 2 * TAG:
            return [0] if size >= TAG else []
        return [*range(0, size - 2 * TAG + 1, STEP), size - TAG]

    def verify(self) -> None:
        for place in self.places():
            assert torch.equal(self.tensor[place : place + TAG].cpu(), self.tag), "another block's data"
        done["verified"] += 1


class Program:
    """One random program; what it allocates is gone at its end."""

    def __init__(self, seed: int, streams: list[torch.cuda.Stream], workers: ThreadPoolExecutor) -> None:
        self.chance = random.Random(seed)
        self.streams, self.workers = streams, workers
        self.held: list[Block] = []
        self.graphs: list[tuple[torch.cuda.CUDAGraph, torch.Tensor]] = []

    def run(self) -> None:
        actions = [self.take] * 18 + [self.give] * 14 + [self.use_elsewhere] * 6
        actions += [self.empty, self.capture, self.ask_too_much, self.in_threads, self.forget_graph]
        for _ in range(self.chance.randrange(10, 120)):
            action = self.chance.choice(actions)
            done[action.__name__] += 1
            action()
            if self.chance.random() < 0.2:
                _core.process_allocator(0).check()
        for block in self.held:
            block.verify()
        self.held.clear()
        self.graphs.clear()

    def size(self) -> int:
        kind = self.chance.random()
        if kind < 0.1:
            return self.chance.choice((0, 1, 511, 512, 513, MIB, MIB + 1, 2 * MIB, 10 * MIB))
        return int(2 ** (self.chance.uniform(3, 20) if kind < 0.35 else self.chance.uniform(20, 25)))

    def take(self) -> None:
        try:
            with torch.cuda.stream(self.chance.choice(self.streams)):
                self.held.append(Block(self.size()))
        except torch.OutOfMemoryError:
            done["out of memory"] += 1
            del self.held[: len(self.held) // 2 + 1]

    def give(self) -> None:
        if self.held:
            self.held.pop(self.chance.randrange(len(self.held))).verify()

    def use_elsewhere(self) -> None:
        if not self.held:
            return
        block, user = self.chance.choice(self.held), self.chance.choice(self.streams)
        for other in self.streams:
            user.wait_stream(other)
        with torch.cuda.stream(user):
            block.tensor.add_(0)
        block.tensor.record_stream(user)

    def empty(self) -> None:
        torch.cuda.empty_cache()

    def capture(self) -> None:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        pool = self.graphs[-1][0].pool() if self.graphs and self.chance.random() < 0.5 else None
        size = self.chance.randrange(1, 2 * MIB)
        try:
            source = torch.empty(size, dtype=torch.uint8, device="cuda")
            with torch.cuda.graph(graph, pool=pool):
                for _ in range(self.chance.randrange(4)):
                    kept = source + 1
                kept = source * 2
        except torch.OutOfMemoryError:
            done["out of memory in a capture"] += 1
            return
        self.graphs.append((graph, kept))
        graph.replay()

    def forget_graph(self) -> None:
        if self.graphs:
            del self.graphs[self.chance.randrange(len(self.graphs))]

    def ask_too_much(self) -> None:
        try:
            torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            return
        raise AssertionError("there is no such device")

    def in_threads(self) -> None:
        def work(seed: int) -> None:
            chance = random.Random(seed)
            mine: list[Block] = []
            with torch.cuda.stream(chance.choice(self.streams)):
                for _ in range(6):
                    try:
                        mine.append(Block(int(2 ** chance.uniform(3, 23))))
                    except torch.OutOfMemoryError:
                        break
                    if chance.random() < 0.5:
                        mine.pop().verify()
            for block in mine:
                block.verify()

        list(self.workers.map(work, [self.chance.randrange(1 << 30) for _ in range(3)]))


def main() -> None:
    """Run the programs; after each, nothing is left."""
    programs, first = int(sys.argv[1]), int(sys.argv[2])
    streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
    gc.collect()
    gc.freeze()  # PyTorch's own objects need not be looked at after every program
    with ThreadPoolExecutor(3) as workers:
        for seed in range(first, first + programs):
            try:
                Program(seed, streams, workers).run()
            except BaseException:
                print(f"seed {seed}", file=sys.stderr)
                raise
            gc.collect()
            assert torch.cuda.memory_allocated() == 0, seed
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    _core.process_allocator(0).check()
    done["left"] = torch.cuda.memory_reserved()
    print(json.dumps({**done, "stitches": _core.process_allocator(0).statistics()["gmlake"]["stitches"]}))


main()
