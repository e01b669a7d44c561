"""What only the bridge can do: each program gives the same answers as with PyTorch's own allocator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.running import Emulated, require

from .conftest import Run, last_line

pytestmark = pytest.mark.usefixtures("bridge")

POOLS = """
import gc, json, torch
MIB = 1 << 20
told = []
def reserved():
    return torch.cuda.memory_stats()["reserved_bytes.all.current"]
def inside(tensor, pool):
    return any(s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"] for s in pool.snapshot())

outside = torch.empty(32 * MIB, device="cuda")
first = reserved()
pool, other = torch.cuda.MemPool(), torch.cuda.MemPool()
told.append([pool.use_count(), other.use_count(), pool.id != other.id])
with torch.cuda.use_mem_pool(pool):
    told.append(pool.use_count())
    a = torch.empty(16 * MIB, device="cuda")
    with torch.cuda.use_mem_pool(other):
        b = torch.empty(1000, device="cuda")
    c = torch.empty(1000, device="cuda")
    told.append(reserved() > first)
told.append([pool.use_count(), [[inside(t, p) for p in (pool, other)] for t in (a, b, c, outside)]])
told.append(sum(s["requested_size"] for s in pool.snapshot()))
at = a.data_ptr()
del a
again = torch.empty(16 * MIB, device="cuda")
told.append(["not outside", again.data_ptr() != at])
with torch.cuda.use_mem_pool(pool):
    a = torch.empty(16 * MIB, device="cuda")
told.append(["again inside", a.data_ptr() == at])
torch.cuda.empty_cache()
told.append(["kept", inside(a, pool), inside(c, pool)])
del again
torch.cuda.empty_cache()
before = reserved()
del a, c, pool
gc.collect()
told.append(["freed with the pool", before - reserved() >= 64 * MIB])
del other
gc.collect()
told.append(["a block outlives its pool", b.numel(), torch.cuda.memory_allocated() >= 128 * MIB])
del b
torch.cuda.empty_cache()
told.append([reserved() == first, torch.cuda.memory_stats().get("reserved_bytes_by_private_pools", {})])

# A pool that helps out; the device has 79 GiB.
GIB = 1 << 30
for helps in (False, True):
    pool = torch.cuda.MemPool(use_on_oom=helps, no_split=False)
    with torch.cuda.use_mem_pool(pool):
        large = torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")
    del large
    try:
        large = torch.empty(60 * GIB, dtype=torch.uint8, device="cuda")
        told.append(["helped", inside(large, pool)])
        del large
    except torch.OutOfMemoryError:
        told.append("out of memory")
    del pool
    gc.collect()

# A graph that allocates in a pool of the program's own.
pool = torch.cuda.MemPool()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=pool.id):
    d = outside + 1
told.append(["graph", inside(d, pool), pool.use_count()])
graph.replay()
del graph, d
gc.collect()
told.append(pool.use_count())
print(json.dumps(told))
"""


def test_pools_of_the_programs_own(gmlake: Run, native: Run) -> None:
    assert gmlake(POOLS) == native(POOLS)


REFUSED = """
import json, os, torch
from gmlake.torch import bridge, shim
told = [bridge.is_active(), bridge.why_not()]
def refusal(call):
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
def strange():
    source = torch._C._cuda_customAllocator(1, 1)
    torch.cuda.MemPool(source)
told.append(refusal(strange))
x = torch.empty(5 << 20, device="cuda")

# What C++ asks, without the shim in between.
stats, snapshot = torch.cuda.memory_stats(), torch.cuda.memory_snapshot()
shim.remove()
native = torch.cuda.memory_stats()
told.append(sorted(name for name in native if native[name] != stats.get(name, 0)))
def shape(segments):
    return [{key: value for key, value in s.items() if key not in ("frames", "blocks", "segment_type")} |
            {"blocks": [(b["address"], b["size"], b["requested_size"], b["state"]) for b in s["blocks"]]}
            for s in segments]
plain = torch.cuda.memory_snapshot()
told.append(shape(plain) == shape(snapshot))
told.append(torch.accelerator.memory_allocated() == torch.cuda.memory_allocated() == x.nbytes)
told.append([torch._C._cuda_isHistoryEnabled(), torch.cuda.get_per_process_memory_fraction()])
seen = []
torch._C._cuda_attach_out_of_memory_observer(lambda *figures: seen.append(figures))
told.append(refusal(lambda: torch.cuda.memory._record_memory_history()))
told.append(refusal(lambda: torch.empty(1 << 40, dtype=torch.uint8, device="cuda"))[:18])
told.append([figures[:2] for figures in seen])
shim.install()
# Blocks that are none.
raw = torch.cuda.caching_allocator_alloc(1000)
torch.cuda.caching_allocator_delete(raw)
told.append([refusal(lambda: torch.cuda.caching_allocator_delete(at)) == f"invalid device pointer: {at:#x}"
             for at in (raw, 12345, x.data_ptr() + 512)])
told.append(refusal(lambda: torch.cuda.caching_allocator_delete(0)))
# The sanitizer's hooks.
from torch.cuda import _gpu_trace
torch._C._activate_gpu_trace()
blocks = []
_gpu_trace.register_callback_for_memory_allocation(lambda at: blocks.append(["+", at]))
_gpu_trace.register_callback_for_memory_deallocation(lambda at: blocks.append(["-", at]))
y = torch.empty(9, device="cuda")
at = y.data_ptr()
del y
told.append(blocks == [["+", at], ["-", at]])
# A forked child lets go of a pool that is its parent's.
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    y = torch.empty(9, device="cuda")
child = os.fork()
if child == 0:
    del y, pool
    os._exit(0)
told.append([os.waitpid(child, 0)[1], pool.use_count()])
print(json.dumps(told))
"""


def test_what_is_asked_in_cpp_and_what_is_refused(gmlake: Run) -> None:
    active, why, strange, different, same_segments, *answers = gmlake(REFUSED)
    accelerator, others, history, error, seen, strangers, nothing, hooks, forked = answers
    assert (active, why) == (True, "")
    assert strange.startswith(
        "GMLake serves a MemPool from its own memory only: leave out the pool's allocator, or run"
    )
    assert different == []
    assert same_segments
    assert accelerator
    assert others == [False, 1.0]
    assert history.startswith("GMLake records memory history through torch.cuda.memory._record_memory_history only")
    assert error == "CUDA out of memory"
    assert seen == [[0, 1 << 40]]
    assert strangers == [True] * 3
    assert nothing is None
    assert hooks
    assert forked == [0, 1]


BENCHMARK = """
import json, torch
from torch import nn
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2), nn.Flatten(), nn.LazyLinear(2)
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
losses = []
for size in (16, 16, 16):
    loss = model(torch.randn(4, 3, size, size).cuda()).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print(json.dumps([losses, torch.cuda.memory_stats()["requested_bytes.all.current"]]))
"""


def test_cudnn_looks_for_the_fastest_way(gmlake: Run, native: Run) -> None:
    ours, theirs = (run(BENCHMARK, "--compute") for run in (gmlake, native))
    assert ours == theirs
    assert len(set(ours[0])) == 3


TREES = """
import json, sys, torch
from torch import nn
options = json.loads(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
first = torch.compile(model, **options)
second = torch.compile(lambda x, y: (x * 2).relu() + y, **options)
restored = []
restore = torch._C._cuda_setCheckpointPoolState
torch._C._cuda_setCheckpointPoolState = lambda *all: (restored.append(1), restore(*all))[1]
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batches = torch.randn(6, 32, 64)
losses, reserved = [], []
for step, batch in enumerate(batches):
    torch.compiler.cudagraph_mark_step_begin()
    x = batch.cuda()
    y = first(x)
    loss = second(y, x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
    if step % 2:  # another path through the tree, which continues where the first ended
        with torch.no_grad():
            torch.compiler.cudagraph_mark_step_begin()
            losses.append(second(second(first(x), x), x).sum().item())
    reserved.append(torch.cuda.memory_reserved())
# Graphs that exist are replayed, then something new begins: what they left in use must be in use again.
late = [torch.compile(lambda x, n=n: (x * n).cos() - x, **options) for n in (3, 4)]
with torch.no_grad():
    for _ in range(4):
        for new in late:
            torch.compiler.cudagraph_mark_step_begin()
            a = first(x)
            b = new(a)
            c = new(b)
            losses += [t.double().sum().item() for t in (a, b, c)]
pools = {s["segment_pool_id"] for s in torch.cuda.memory_snapshot()} - {(0, 0)}
requested = torch.cuda.memory_stats()["requested_bytes.all.current"]
print(json.dumps([losses, reserved, requested, len(pools), len(restored)]))
"""


def trees(run: Run, options: dict[str, str], *more: str) -> Any:
    return run(TREES, *more, arguments=(json.dumps(options),))


def test_graph_trees_go_back_to_checkpoints(gmlake: Run, native: Run) -> None:
    """Every value is computed, so that a block that came back at another address would show."""
    ours, theirs = (trees(run, {"backend": "cudagraphs"}, "--compute") for run in (gmlake, native))
    assert ours[0] == theirs[0]
    assert len(set(ours[0])) == 9 + 5  # what the late graphs say is the same in every round
    assert ours[2:] == theirs[2:]
    assert ours[3] == 1
    assert ours[4] > 0, "no checkpoint was restored"
    assert ours[1][-1] == ours[1][-3], "graphs that are replayed need no more memory"
    assert ours[1][-1] <= theirs[1][-1]


def test_compiling_to_reduce_overhead(gmlake: Run) -> None:
    require("triton")
    _, reserved, requested, pools, _ = trees(gmlake, {"mode": "reduce-overhead"})
    assert requested > 0
    assert pools == 1
    assert reserved[-1] == reserved[-3]


SHARING = """
import gc, json, sys, torch, torch.multiprocessing as mp
def child(queue, answers):
    views = queue.get()
    told = [[x.cpu().sum().item() for x in views], views[0].data_ptr() - views[3].data_ptr()]
    views[0].copy_(torch.full((5,), 7.0))
    torch.cuda.synchronize()
    used = torch.cuda.mem_get_info()
    mine = torch.cuda.memory_allocated()
    del views
    gc.collect()
    told.append([used == torch.cuda.mem_get_info(), mine])
    answers.put(told)
    queue.get()
if __name__ == "__main__":
    mp.set_start_method("spawn")
    queue, answers = mp.Queue(), mp.Queue()
    process = mp.Process(target=child, args=(queue, answers))
    process.start()
    pad = torch.empty(3 << 20, device="cuda")
    x, y = torch.arange(5.0).cuda(), torch.arange(5_000_000.0, dtype=torch.float64).cuda()
    queue.put([x, y, y[1000:2000], x])
    told = answers.get()
    queue.put(None)
    process.join()
    print(json.dumps([told, x.cpu().tolist(), process.exitcode]))
"""


def test_tensors_that_processes_share(gmlake: Run, native: Run, tmp_path: Path, emulated: Emulated) -> None:
    script = tmp_path / "share.py"  # the child imports it
    script.write_text(SHARING)
    ours = last_line(emulated(script, "--allocator", "gmlake", "--compute"))
    assert ours == last_line(emulated(script, "--allocator", "torch", "--compute"))
    assert ours[0][0] == [10, 12499997500000, 1499500, 10]
    assert ours[1:] == [[7] * 5, 0]


RETURNED = """
import gc, json, torch, torch.multiprocessing as mp
def child(queue, answers):
    tensor = queue.get()
    answers.put("taken")
    queue.get()
    del tensor
    gc.collect()
    answers.put("given back")
    queue.get()
if __name__ == "__main__":
    mp.set_start_method("spawn")
    queue, answers = mp.Queue(), mp.Queue()
    process = mp.Process(target=child, args=(queue, answers))
    process.start()
    large = torch.empty(40 << 30, dtype=torch.uint8, device="cuda")
    queue.put(large)
    told = [answers.get()]
    del large  # the other process has it still, so that PyTorch keeps it
    queue.put(None)
    told.append(answers.get())
    larger = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
    queue.put(None)
    process.join()
    print(json.dumps([told, larger.numel() >> 30, process.exitcode]))
"""


def test_what_other_processes_have_given_back_is_used_before_memory_runs_out(
    tmp_path: Path, emulated: Emulated
) -> None:
    script = tmp_path / "returned.py"
    script.write_text(RETURNED)
    assert last_line(emulated(script, "--allocator", "gmlake")) == [["taken", "given back"], 60, 0]


ELSEWHERE = """
import json, torch
block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda:0")
place = block.data_ptr()
with torch.cuda.device(1):
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        block.record_stream(stream)
del block
again = torch.empty(64 << 20, dtype=torch.uint8, device="cuda:0")
torch.cuda.empty_cache()
print(json.dumps([again.data_ptr() == place, torch.cuda.memory_reserved(0) >> 20]))
"""


def test_streams_of_another_device_are_waited_for(tmp_path: Path, emulated: Emulated) -> None:
    """By the time the block is free again, so that nothing is left to wait for ever after."""
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)
    assert last_line(emulated(script, "--allocator", "gmlake", "--gpus", "2")) == [True, 64]


PLAIN = """
import json, torch
from gmlake.torch import bridge
def refusal(call):
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
x = torch.ones(1000, device="cuda")
told = [bridge.is_active(), bridge.why_not(), torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated()]
told.append(refusal(torch.cuda.MemPool))
print(json.dumps(told))
"""


def test_without_the_bridge(gmlake: Run) -> None:
    told = gmlake(PLAIN, env={"GMLAKE_BRIDGE": "0"})
    assert told[:4] == [False, "it is turned off by GMLAKE_BRIDGE=0", "gmlake", 4096]
    assert "does not yet support createOrIncrefPool" in told[4]


NO_MAPPING = """
import json, torch
torch.manual_seed(0)
layer = torch.nn.Linear(64, 64).cuda()
graph = torch.cuda.CUDAGraph()
x = torch.ones(8, 64, device="cuda")
for _ in range(3):
    layer(x).sum().backward()
with torch.cuda.graph(graph):
    y = x + 1
graph.replay()
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    big = torch.empty(30 << 20, device="cuda")
assert pool.use_count() == 1 and len(pool.snapshot()) == 1
statistics = torch.cuda.memory_stats()
print(json.dumps([torch.cuda.get_allocator_backend(), statistics["requested_bytes.all.current"],
                  statistics["reserved_bytes.all.current"], y[0, 0].item()]))
"""


@pytest.mark.parametrize("wanted", ["1", "strict"])
def test_a_device_without_virtual_memory_management(emulated: Emulated, native: Run, wanted: str) -> None:
    """One sentence, and the same service as by PyTorch itself; an error where that is not wanted."""
    shell = 'GMLAKE_DEVICE="$GMLAKE_DEVICE;virtual_memory=0" exec python -c "$0"'
    done = emulated.command(["sh", "-c", shell, NO_MAPPING], "--compute", env={"GMLAKE": wanted})
    sentence = "device 0 has no virtual memory management, which stitching needs"
    assert done.stderr.count(sentence) == 1
    if wanted == "strict":
        assert done.status != 0
        return
    assert f"gmlake: {sentence}; it is served as by PyTorch itself, without stitching\n" in done.stderr
    assert last_line(done)[1:] == native(NO_MAPPING, "--compute")[1:]
    assert last_line(done)[0] == "gmlake"
