"""Threads, forks, the order of things at the end of a process, several devices."""

from __future__ import annotations

import pytest

from tests.emulator.running import Emulated

from .conftest import Run, last_line

THREADS = """
import json, random, sys, threading, torch
errors = []
def work(seed):
    try:
        chance = random.Random(seed)
        stream = torch.cuda.Stream() if seed % 2 else torch.cuda.default_stream()
        held = []
        with torch.cuda.stream(stream):
            for _ in range(400):
                tensor = torch.empty(int(2 ** chance.uniform(6, 24)), dtype=torch.uint8, device="cuda")
                tag = torch.full((64,), seed * 7 % 251, dtype=torch.uint8)
                tensor[:64].copy_(tag[: len(tensor)])
                held.append((tensor, tag))
                if chance.random() < 0.6:
                    tensor, tag = held.pop(chance.randrange(len(held)))
                    assert torch.equal(tensor[:64].cpu(), tag[: len(tensor)])
                if chance.random() < 0.01:
                    torch.cuda.empty_cache()
                if chance.random() < 0.01:
                    torch.cuda.memory_stats(), torch.cuda.memory_snapshot()
        for tensor, tag in held:
            assert torch.equal(tensor[:64].cpu(), tag[: len(tensor)])
    except BaseException as error:
        errors.append(repr(error))
workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for w in workers: w.start()
for w in workers: w.join()
import gmlake._core as core
core.process_allocator(0).check()
torch.cuda.synchronize(); torch.cuda.empty_cache()
print(json.dumps([errors, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]))
"""


def test_threads_with_data(gmlake: Run) -> None:
    assert gmlake(THREADS) == [[], 0, 0]


def test_a_tensor_freed_by_another_thread_and_device(gmlake: Run) -> None:
    program = """
import json, threading, torch
torch.cuda.set_device(0)
box = [torch.ones(5 << 20, device="cuda:1"), torch.ones(1000, device="cuda:0")]
def drop():
    torch.cuda.set_device(1)
    box.clear()
t = threading.Thread(target=drop); t.start(); t.join()
print(json.dumps([torch.cuda.memory_allocated(d) for d in (0, 1)]))
"""
    assert gmlake(program, "--gpus", "2") == [0, 0]


def test_devices_are_apart_and_peers(gmlake: Run, native: Run) -> None:
    program = """
import json, torch
x = torch.arange(4000, dtype=torch.int64).to("cuda:0")
y = x.to("cuda:1")
z = y.to("cuda:0", non_blocking=True)
ok = torch.equal(z.cpu(), torch.arange(4000))
torch.cuda.set_device(1)
w = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
figures = [[torch.cuda.memory_allocated(d), torch.cuda.max_memory_allocated(d)] for d in range(3)]
torch.cuda.reset_peak_memory_stats(0)
torch.cuda.set_per_process_memory_fraction(0.5, 1)
fractions = [torch.cuda.get_per_process_memory_fraction(d) for d in range(3)]
where = sorted({s["device"] for s in torch.cuda.memory_snapshot()})
print(json.dumps([ok, torch.cuda.can_device_access_peer(0, 1), figures, fractions, where]))
"""
    ours = gmlake(program, "--gpus", "3")
    assert ours == native(program, "--gpus", "3")
    assert ours[0] is True
    assert ours[2][2] == [0, 0]


def test_an_unused_device_stays_unused(gmlake: Run) -> None:
    """A question is not a use: no context on a device that the program does not touch."""
    program = """
import json, torch
from gmlake import _core
x = torch.ones(3, device="cuda:1")
torch.cuda.memory_stats(0), torch.cuda.memory_summary(2), torch.cuda.reset_peak_memory_stats(2)
torch.cuda.memory_snapshot(), torch.cuda.get_per_process_memory_fraction(0), torch.cuda.empty_cache()
print(json.dumps(_core.used_devices()))
"""
    assert gmlake(program, "--gpus", "3") == [1]


FORK = """
import json, os, sys, torch
x = torch.ones(1000, device="cuda")
y = [torch.ones(3 << 20, device="cuda") for _ in range(5)]
read, write = os.pipe()
child = os.fork()
if child == 0:
    said = []
    try:
        torch.ones(1, device="cuda")
    except RuntimeError as error:
        said.append("Cannot re-initialize CUDA in forked subprocess" in str(error))
    from gmlake import _core
    try:
        _core.process_allocator(0)
    except RuntimeError as error:
        said.append("forked" in str(error))
    said.append(_core.used_devices())
    del y, x  # blocks of the parent: nothing happens to them
    os.write(write, json.dumps(said).encode())
    sys.exit(0)
os.close(write)
said = json.loads(os.read(read, 10000))
_, status = os.waitpid(child, 0)
import gmlake._core as core
core.process_allocator(0).check()
print(json.dumps([said, status, torch.cuda.memory_allocated()]))
"""


def test_a_forked_child_leaves_the_parents_memory_alone(gmlake: Run) -> None:
    assert gmlake(FORK) == [[True, True, []], 0, 4096 + 5 * (12 << 20)]


def test_a_fork_before_cuda_is_used(gmlake: Run) -> None:
    """Enabling starts nothing: parent and child may both use the device."""
    program = """
import json, os, torch
read, write = os.pipe()
child = os.fork()
x = torch.ones(1000, device="cuda")
if child == 0:
    os.write(write, json.dumps([torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated()]).encode())
    os._exit(0)
os.close(write)
said = json.loads(os.read(read, 10000))
os.waitpid(child, 0)
print(json.dumps([said, torch.cuda.memory_allocated()]))
"""
    assert gmlake(program) == [["gmlake", 4096], 4096]


def test_workers_of_a_data_loader(gmlake: Run) -> None:
    program = """
import json, torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    model = torch.nn.Linear(8, 8).cuda()
    loader = DataLoader(TensorDataset(torch.arange(800.).view(100, 8)), batch_size=20, num_workers=2, pin_memory=True)
    total = sum(model(batch.cuda(non_blocking=True)).shape[0] for epoch in range(2) for (batch,) in loader)
    print(json.dumps(total))
"""
    assert gmlake(program) == 200


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "import builtins; builtins.kept = keep",
        "import atexit; atexit.register(lambda: keep.clear())",
        "class Late:\n    def __del__(self): keep.clear()\nlate = Late(); import sys; sys.late = late",
        "torch.cuda.memory._record_memory_history()\nkeep.append(torch.ones(9, device='cuda'))",
        "g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    keep.append(keep[0] + 1)",
        "import threading; threading.Thread(target=lambda: __import__('time').sleep(0.2) or keep.clear()).start()",
    ],
)
def test_the_end_of_a_process(emulated: Emulated, ending: str) -> None:
    program = f"""
import torch
keep = [torch.ones(1 << 20, device="cuda"), torch.ones(10, device="cuda")]
{ending}
print("1")
"""
    done = emulated(program, "--allocator", "gmlake")
    assert last_line(done) == 1
    assert done.stderr == ""
