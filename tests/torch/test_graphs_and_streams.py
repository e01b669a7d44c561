"""CUDA graphs and their pools, several streams: memory that captured or unfinished work needs is not handed out."""

from __future__ import annotations

from .conftest import Run

GRAPHS = """
import gc, json, torch
MIB = 1 << 20
told = []
def tell(what):
    statistics = torch.cuda.memory_stats()
    pools = {name: value for name, value in statistics.items() if name.endswith("all.current") and "private" in name}
    told.append([what, statistics["requested_bytes.all.current"], torch.cuda.memory_reserved(), pools])

x = torch.ones(8 * MIB, device="cuda")
first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(first):
    a = x + 1
    b = a * 2
    del a
tell("one graph")
with torch.cuda.graph(second, pool=first.pool()):
    c = b + 1
tell("two graphs share a pool")
captured = {t.data_ptr() for t in (b, c)}
segments = torch.cuda.memory_snapshot()
inside = [s for s in segments if s["segment_pool_id"] == tuple(first.pool())]
told.append(["in the pool", len(inside) > 0, all(
    any(s["address"] <= p < s["address"] + s["total_size"] for s in inside) for p in captured)])
told.append(["by pool", torch.cuda.memory_snapshot(first.pool()) == inside])
# Ordinary work does not get what the graphs hold, whatever it frees and empties.
spans = [(s["address"], s["address"] + s["total_size"]) for s in inside]
for round in range(20):
    y = [torch.empty(n * MIB, device="cuda") for n in (1, 3, 8, 2)]
    assert not any(low <= t.data_ptr() < high for t in y for low, high in spans)
    del y[round % 4]
    torch.cuda.empty_cache()
    first.replay(); second.replay()
del y
third = torch.cuda.CUDAGraph()
with torch.cuda.graph(third):
    d = x - 1
tell("another pool")
del b, c, d
tell("tensors gone")
del first; gc.collect(); torch.cuda.empty_cache()
tell("first graph gone")
del second, third; gc.collect(); torch.cuda.empty_cache()
tell("all graphs gone")
print(json.dumps(told))
"""


def test_graphs_with_shared_pools(either: Run, native: Run) -> None:
    ours, theirs = either(GRAPHS), native(GRAPHS)
    assert [line[0] for line in ours] == [line[0] for line in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[1] == other[1], mine[0]  # requested bytes, or a yes
        if len(mine) == 4:
            assert mine[2] <= other[2], mine[0]
            assert set(mine[3]) <= set(other[3]), mine[0]
    assert not any(ours[-1][3].values())


RECORDED = """
import json, sys, torch
MIB = 1 << 20
BYTES = "active_bytes", "requested_bytes"
side = torch.cuda.Stream()
overlaps = 0
def work(record):
    x = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(50):
            x.add_(1)
    at = x.data_ptr()
    if record:
        x.record_stream(side)
    del x
    y = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    return y.data_ptr() == at
early = work(True)
state = torch.cuda.memory_stats()
waiting = [state[f"{name}.all.current"] - state["allocated_bytes.all.current"] for name in BYTES]
states = {b["state"] for s in torch.cuda.memory_snapshot() for b in s["blocks"]}
torch.cuda.synchronize()
torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
state = torch.cuda.memory_stats()
later = [state[f"{name}.all.current"] - state["allocated_bytes.all.current"] for name in BYTES]
torch.cuda.synchronize()
print(json.dumps([early, waiting, "active_pending_free" in states, later, work(False)]))
"""


def test_record_stream_keeps_memory_until_the_work_is_done(gmlake: Run, native: Run) -> None:
    ours = gmlake(RECORDED, "--kernel-us", "1000")
    assert ours == native(RECORDED, "--kernel-us", "1000")
    assert ours == [False, [16 << 20, 16 << 20], True, [0, 0], True]


def test_no_access_without_order(emulated: object, gmlake: Run) -> None:
    """The device itself looks for memory that two streams use without order."""
    program = """
import json, random, torch
chance = random.Random(3)
streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
held = []
for _ in range(600):
    with torch.cuda.stream(chance.choice(streams)):
        held.append(torch.empty(int(2 ** chance.uniform(12, 25)), dtype=torch.uint8, device="cuda").zero_())
    user = chance.choice(streams)
    user.wait_stream(torch.cuda.current_stream())
    if chance.random() < 0.5:
        maker = held[-1]
        for other in streams:
            if other is not user:
                user.wait_stream(other)
        with torch.cuda.stream(user):
            maker.add_(1)
        maker.record_stream(user)
        del maker
    if chance.random() < 0.6:
        del held[chance.randrange(len(held))]
import ctypes
count = ctypes.CDLL(None).gmlake_device_hazards()
print(json.dumps([count, torch.cuda.memory_stats()["num_ooms"]]))
"""
    assert gmlake(program, "--hazards", "--kernel-us", "200", "--memory", "2GiB")[0] == 0
