"""Running out of memory: PyTorch's error with PyTorch's figures and ours, and training goes on after catching it."""

from __future__ import annotations

import re

from .conftest import Run

LADDER = """
import gc, json, torch
GIB = 1 << 30
seen, observed = [], []
torch._C._cuda_attach_out_of_memory_observer(lambda *figures: observed.append(figures))
torch._C._cuda_attach_out_of_memory_observer(lambda *figures: 1 / 0)

def step(size):
    a = torch.empty(size * GIB, dtype=torch.uint8, device="cuda")
    return torch.empty(size * GIB, dtype=torch.uint8, device="cuda").numel() + a.numel()

# As a batch-size finder does: halve until it fits, and go on with that.
size, tries = 64, []
while True:
    try:
        step(size)
        tries.append([size, True])
        break
    except torch.OutOfMemoryError as error:
        seen.append([str(error), isinstance(error, RuntimeError), torch.cuda.OutOfMemoryError is type(error)])
        tries.append([size, False])
        size //= 2
for _ in range(5):
    step(size)
statistics = torch.cuda.memory_stats()
print(json.dumps([tries, seen, observed, statistics["num_ooms"], statistics["allocated_bytes.all.current"]]))
"""


def test_a_batch_size_finder(either: Run, native: Run) -> None:
    ours, theirs = either(LADDER), native(LADDER.replace("1 / 0", "0"))
    tries, seen, observed, failures, left = ours
    assert tries == theirs[0] == [[64, False], [32, True]]
    assert failures == theirs[3] == 1
    assert left == 0
    assert observed == theirs[2]
    message, is_runtime_error, is_its_type = seen[0]
    assert is_runtime_error and is_its_type
    usual = theirs[1][0][0]
    for figure in (
        r"Tried to allocate 64\.00 GiB",
        r"total capacity of \S+ GiB of which \S+ GiB is free",
        r"Of the allocated memory \S+ GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated",
    ):
        assert re.findall(figure, message) == re.findall(figure, usual) != []
    assert "GMLake: 0.0 % of the reserved memory was not in use (fragmentation)" in message
    assert "The request exceeds what is there by 48.75 GiB" in message
    assert "a smaller batch, activation checkpointing or offloading would have helped" in message


def test_more_than_any_device_can_address_is_out_of_memory_too(either: Run, native: Run) -> None:
    program = """
import json, torch
told = []
for size in (1 << 48, 1 << 50, (1 << 63) - 1):
    for ask in (torch.cuda.caching_allocator_alloc, lambda n: torch.empty(n, dtype=torch.uint8, device="cuda")):
        try:
            ask(size)
        except torch.OutOfMemoryError as error:
            told.append(str(error)[:40])
statistics = torch.cuda.memory_stats()
print(json.dumps([told, statistics["num_ooms"], torch.empty(9, device="cuda").numel()]))
"""
    ours, theirs = either(program), native(program)
    assert len(ours[0]) == len(theirs[0]) == 6
    assert ours[0][0] == theirs[0][0] == "CUDA out of memory. Tried to allocate 26"
    assert ours[1] == 6
    assert ours[2] == 9


def test_accelerate_and_lightning_know_the_error(gmlake: Run) -> None:
    """What accelerate's find_executable_batch_size and Lightning's batch-size finder look at."""
    program = """
import json, torch
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    accelerate = any(text in error.args[0] for text in ("CUDA out of memory.", " out of memory."))
    lightning = isinstance(error, torch.OutOfMemoryError) or "CUDA out of memory." in error.args[0]
    print(json.dumps([accelerate and len(error.args) == 1, lightning]))
"""
    assert gmlake(program) == [True, True]


def test_what_would_have_helped(gmlake: Run) -> None:
    program = """
import json, torch
GIB = 1 << 30
said = []
def ask(size):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        said.append(str(error).rpartition("GMLake: ")[2])
torch.cuda.set_per_process_memory_fraction(0.5)
ask(50 * GIB)
torch.cuda.set_per_process_memory_fraction(1.0)
# One byte in every chunk is in use.
held = [torch.empty(2 << 20, dtype=torch.uint8, device="cuda") for _ in range(1000)]
rest = torch.empty(torch.cuda.mem_get_info()[0] >> 21 << 21, dtype=torch.uint8, device="cuda")
del held[::2]
ask(1500 << 20)
print(json.dumps(said))
"""
    limited, scattered = gmlake(program)
    assert "a larger memory fraction would have helped" in limited
    assert "exceeds what is there by 500.00 MiB" in scattered


SCATTERED = """
import json, torch
def pieces(size, count):
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(count)]
    del kept[::2]
    return kept
kept = pieces(%d, %d)
free = torch.cuda.mem_get_info()[0] >> 21 << 21
rest = torch.empty(free, dtype=torch.uint8, device="cuda") if free else None
try:
    torch.empty(%d, dtype=torch.uint8, device="cuda")
    print(json.dumps("served"))
except torch.OutOfMemoryError as error:
    print(json.dumps(str(error).rpartition("GMLake: ")[2]))
"""


def test_smaller_chunks_are_advised_only_where_they_would_be_smaller(gmlake: Run) -> None:
    """On a small card chunks have 2 MiB anyway: what is free there lies between smaller pieces that are in use."""
    said = gmlake(SCATTERED % (1200 << 10, 700, 300 << 20), "--memory", "1GiB")
    assert "pieces of less than 2 MiB" in said
    assert "GMLAKE_CHUNK_LIMIT" not in said
    assert "a smaller batch" in said


POOLS = """
import json, torch
GIB = 1 << 30
pool, said = torch.cuda.MemPool(use_on_oom=%s), []
with torch.cuda.use_mem_pool(pool):
    block = torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")
del block
for _ in range(2):
    try:
        torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")
        said.append("served")
    except torch.OutOfMemoryError as error:
        said.append(str(error).rpartition("GMLake: ")[2])
    pool = None
print(json.dumps(said))
"""


def test_memory_in_a_private_pool_is_named(bridge: None, gmlake: Run) -> None:
    """And what is advised helps."""
    said, later = gmlake(POOLS % "False")
    assert "60.00 GiB belong to private pools (MemPool, CUDA graphs)" in said
    assert "a MemPool that is deleted after use, or one with use_on_oom=True might have helped" in said
    assert later == "served"
    assert gmlake(POOLS % "True") == ["served", "served"]


def test_in_the_backward_pass(gmlake: Run) -> None:
    """Another thread, no interpreter's lock, and the error still arrives where backward was called."""
    program = """
import json, torch
def step(size):
    x = torch.empty(size, device="cuda", requires_grad=True)
    (x * x).sum().backward()
    return x.grad.numel()
caught = 0
for gigabytes in (6, 3, 6, 3):
    try:
        step(gigabytes << 28)
    except torch.OutOfMemoryError:
        caught += 1
print(json.dumps([caught, torch.cuda.memory_allocated()]))
"""
    caught, left = gmlake(program, "--memory", "15GiB")
    assert caught == 2
    assert left == 0
