"""Seeing GMLake work: gmlake.stats, gmlake.summary, gmlake.record, the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmlake.trace import read_trace
from tests.emulator.running import Emulated

from .conftest import Run, last_line

MIB = 1 << 20

TRAINING = """
import json, torch, gmlake
from torch import nn
assert gmlake.stats() == {} and "has not served" in gmlake.summary()
model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).cuda()
optimizer = torch.optim.Adam(model.parameters())
for length in (300, 700, 500, 900):
    model(torch.randn(length, 1024, device="cuda")).sum().backward()
    optimizer.step(); optimizer.zero_grad()
"""


def test_stats(gmlake: Run) -> None:
    program = (
        TRAINING
        + """
found = gmlake.stats()
same = torch.cuda.memory_stats_as_nested_dict()
assert all(found[name] == value for name, value in same.items() if name in found)
print(json.dumps(found["gmlake"]))
"""
    )
    own = gmlake(program)
    assert 0.5 < own["utilisation"] <= 1
    assert own["driver_calls"]["create"][0] > 0
    assert {"stitches", "sblock_hits", "fences", "sblocks"} <= set(own)


def test_summary_says_what_was_saved(gmlake: Run, native: Run) -> None:
    """The rival beside the real allocator reserves exactly what PyTorch's own allocator does."""
    program = (
        TRAINING
        + """
from gmlake import _core
print(json.dumps([gmlake.summary(), _core.rival_statistics(0)]))
"""
    )
    page, rival = gmlake(program, env={"GMLAKE_COMPARE": "1"})
    real = native(TRAINING + "print(json.dumps(torch.cuda.memory_stats_as_nested_dict()))")
    for name in ("reserved_bytes", "requested_bytes", "allocated_bytes", "segment"):
        assert rival[name] == real[name], name
    for words in ("GMLake 0.", "on GPU 0", "peak reserved", "PyTorch alone", "Saved: ", "stitched together"):
        assert words in page
    page, rival = gmlake(program)
    assert rival is None
    assert "Start with GMLAKE_COMPARE=1" in page


def test_the_rival_follows_streams_graphs_and_resets(gmlake: Run, native: Run) -> None:
    program = """
import json, sys, torch
MIB = 1 << 20
side = torch.cuda.Stream()
x = torch.empty(30 * MIB, device="cuda")
with torch.cuda.stream(side):
    y = torch.empty(5 * MIB, device="cuda")
x.record_stream(side)
del x
torch.cuda.synchronize()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    z = y + 1
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
w = torch.empty(3 * MIB, device="cuda")
ours = torch.cuda.get_allocator_backend() == "gmlake"
if ours:
    from gmlake import _core
    statistics = _core.rival_statistics(0)
else:
    statistics = torch.cuda.memory_stats_as_nested_dict()
kinds = [statistics[name]["all"] for name in ("reserved_bytes", "segment")]
print(json.dumps([[kind["current"], kind["peak"]] for kind in kinds]))
"""
    assert gmlake(program, env={"GMLAKE_COMPARE": "1"}) == native(program)


def test_the_rival_is_emptied_by_both_functions(either: Run) -> None:
    program = """
import json, torch
from gmlake import _core
torch.accelerator.empty_cache() if hasattr(torch.accelerator, "empty_cache") else None
used, left = _core.used_devices(), []
for empty in (torch.cuda.empty_cache, getattr(torch.accelerator, "empty_cache", torch.cuda.empty_cache)):
    blocks = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (3, 7, 30)]
    del blocks
    empty()
    left.append([torch.cuda.memory_reserved(), _core.rival_statistics(0)["reserved_bytes"]["all"]["current"]])
print(json.dumps([used, left]))
"""
    assert either(program, env={"GMLAKE_COMPARE": "1"}) == [[], [[0, 0], [0, 0]]]


def test_record(gmlake: Run, tmp_path: Path) -> None:
    program = (
        TRAINING
        + """
import sys
for path in sys.argv[1:]:
    before = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    with gmlake.record(path):
        x = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
        del before, x
said, begun = [], []
for path in (sys.argv[1], "trace.txt", "no/such.gmt", "/sys/trace.gmt", sys.argv[2] + ".gmt"):
    try:
        with gmlake.record(path):
            begun.append(path)
    except Exception as error:
        said.append(str(error))
with gmlake.record(sys.argv[1], force=True):
    x = torch.empty(700, dtype=torch.uint8, device="cuda")
print(json.dumps([said, len(begun)]))
"""
    )
    paths = (tmp_path / "a.gmt", tmp_path / "b.pickle")
    (exists, suffix, folder, refused, nothing), begun = gmlake(program, arguments=paths)
    assert "exists already" in exists
    assert "suffix '.txt'" in suffix
    assert "no folder no" in folder
    assert "/sys/trace.gmt cannot be written" in refused
    assert "nothing was allocated or freed" in nothing
    assert begun == 1
    trace = read_trace(paths[1])
    assert trace.size[trace.size > 4 * MIB].tolist() != []
    assert {3 * MIB, 5 * MIB} <= set(trace.size.tolist())
    assert 700 in read_trace(paths[0]).size.tolist()


def test_record_without_gmlake(native: Run, tmp_path: Path) -> None:
    program = """
import json, sys, torch, gmlake
torch.ones(1, device="cuda")
try:
    with gmlake.record(sys.argv[1]): pass
except RuntimeError as error:
    print(json.dumps(str(error)))
"""
    assert "call gmlake.enable() or set GMLAKE=1 first" in native(program, arguments=(tmp_path / "a.gmt",))


RECORDED = """
import json, sys, torch, gmlake
own, other, early = sys.argv[1:4]
def some(*sizes):
    return [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
if early == "early":  # nothing has used CUDA yet
    with gmlake.record(other):
        some(1000)
kept = some(3 << 20, 4 << 20)
some(5 << 20, 5 << 20)
said = []
with gmlake.record(own):
    kept += some(6 << 20)
    for _ in range(300):
        some(9001)
    del kept[0]
    try:
        with gmlake.record(other, force=True):
            pass
    except Exception as error:
        said.append(str(error))
some(7 << 20)
with gmlake.record(other, max_entries=4, force=True):
    some(*range(1000, 20000, 1000))
torch.cuda.memory._record_memory_history()
try:
    with gmlake.record(other, force=True):
        pass
except Exception as error:
    said.append(str(error))
torch.cuda.memory._record_memory_history(None)
print(json.dumps(said))
"""


@pytest.mark.parametrize("early", ["early", "late"])
def test_record_in_a_recorded_run(gmlake: Run, tmp_path: Path, early: str) -> None:
    """The block's trace is what it is without, and the run's is whole."""
    traces = []
    for name in ("alone", "within"):
        (tmp_path / name).mkdir()
        own, other, run = (tmp_path / name / f"{file}.gmt" for file in ("own", "other", "run"))
        within = name == "within"
        said = gmlake(RECORDED, *(["--record", run] if within else []), arguments=(own, other, early))
        assert [text.partition(";")[0] for text in said] == ["PyTorch's memory history is being recorded"] * 2
        trace = read_trace(own, find_marks=False)
        traces.append((trace.initial, trace.kind.tolist(), trace.size.tolist()))
        assert 1 < len(read_trace(other, find_marks=False)) < 19  # the last entries only
    assert traces[0] == traces[1]
    sizes = read_trace(run, find_marks=False).size.tolist()
    assert [size >> 20 for size in sizes if size >= MIB].count(7) == 1
    assert (sizes.count(9001), sizes.count(1000)) == (300, 2 if early == "early" else 1)


def test_a_recorded_run(emulated: Emulated, tmp_path: Path) -> None:
    """gmlake run --record keeps the same trace, whoever allocates."""
    sizes = []
    for allocator in ("torch", "gmlake"):
        path = tmp_path / f"{allocator}.gmt"
        done = emulated(TRAINING, "--allocator", allocator, "--record", path)
        assert done.status == 0, done.stderr
        trace = read_trace(path)
        assert trace.iterations == 4
        sizes.append((trace.size.tolist(), trace.kind.tolist()))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("level", ["info", "", "loud"])
def test_the_log(emulated: Emulated, level: str) -> None:
    done = emulated(TRAINING + "print(1)", "--allocator", "gmlake", env={"GMLAKE_LOG": level, "RANK": "3"})
    assert last_line(done) == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("gmlake")]
    if level == "info":
        first, last = lines
        assert first.startswith("gmlake (rank 3): version 0.")
        assert last.startswith("gmlake (rank 3): GPU 0: peak active")
    else:
        assert lines == (["gmlake (rank 3): GMLAKE_LOG=loud means nothing; expected info"] if level else [])
