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
for path in (sys.argv[1], "trace.txt", "no/such.gmt", "/sys/trace.gmt"):
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
    (exists, suffix, folder, refused), begun = gmlake(program, arguments=paths)
    assert "exists already" in exists
    assert "suffix '.txt'" in suffix
    assert "no folder no" in folder
    assert "/sys/trace.gmt cannot be written" in refused
    assert begun == 0
    trace = read_trace(paths[1])
    assert trace.size[trace.size > 4 * MIB].tolist() != []
    assert {3 * MIB, 5 * MIB} <= set(trace.size.tolist())
    assert 700 in read_trace(paths[0]).size.tolist()


def test_devices_are_named_as_for_pytorch(gmlake: Run, tmp_path: Path) -> None:
    program = """
import json, sys, torch, gmlake
said = []
def refused(work):
    try:
        work()
        said.append("accepted")
    except Exception as error:
        said.append(str(error))
assert gmlake.stats() == gmlake.stats("cuda") == gmlake.stats("cuda:1") == {}
refused(lambda: gmlake.stats(2))
assert not torch.cuda.is_initialized()
torch.cuda.set_device(1)
x = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
names = None, "cuda", "cuda:1", torch.device("cuda", 1), torch.device("cuda"), torch.cuda.device(1)
found = [gmlake.stats(name)["requested_bytes"]["all"]["peak"] for name in names]
assert "on GPU 1" in gmlake.summary() and gmlake.summary() == gmlake.summary("cuda:1") == gmlake.summary(1)
assert gmlake.stats("cuda:0") == {} and "has not served" in gmlake.summary(torch.device("cuda", 0))
for name in (2, -1, "cuda:2", "cpu"):
    for ask in (gmlake.stats, gmlake.summary, lambda name: gmlake.record(sys.argv[1], device=name).__enter__()):
        refused(lambda: ask(name))
for path, name in zip(sys.argv[1:], (None, "cuda:1", torch.device("cuda"))):
    with gmlake.record(path, device=name):
        y = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
print(json.dumps([said, found]))
"""
    paths = [tmp_path / f"{name}.gmt" for name in "abc"]
    said, found = gmlake(program, "--gpus", "2", arguments=paths)
    beyond, below = (f"there is no device {number}: PyTorch sees 2, counted from 0" for number in (2, -1))
    assert said[:10] == [beyond, *[beyond] * 3, *[below] * 3, *[beyond] * 3]
    assert said[10:] == ["Expected a cuda device, but got: cpu"] * 3
    assert found == [5 * MIB] * 6
    for path in paths:
        assert 3 * MIB in read_trace(path).size.tolist()


def test_what_a_recording_could_not_keep(gmlake: Run, tmp_path: Path) -> None:
    """It is said when the work is done, and in no exception's place."""
    program = """
import json, os, sys, warnings, torch, gmlake
memory = torch.cuda.memory
target = sys.argv[1]
def allocate():
    torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
def switch_off():
    allocate()
    memory._record_memory_history(None)
def restart():
    switch_off()
    memory._record_memory_history()
    allocate()
def fail():
    allocate()
    raise ValueError("training failed")
def fail_early():
    raise ValueError("training failed early")
def fail_without_a_folder():
    os.rmdir(os.path.dirname(target))
    fail()
said = []
for work in (lambda: None, switch_off, restart, fail, fail_early, fail_without_a_folder):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with gmlake.record(target, force=True):
                work()
        except Exception as error:
            warned.append(error)
    said.append([[str(getattr(one, "message", one)), getattr(one, "filename", "")] for one in warned])
    said[-1].append(os.path.exists(target) and (os.remove(target) or True))
    assert not torch._C._cuda_isHistoryEnabled()
print(json.dumps(said))
"""
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / "a.gmt"
    off = "PyTorch's memory history was switched off or cleared inside the `with`"
    assert gmlake(program, arguments=(path,)) == [
        [[f"{path} was not written: nothing was allocated or freed on device 0", "<string>"], False],
        [[f"{path} was not written: {off}", "<string>"], False],
        [[f"{path} lacks its beginning: {off}", "<string>"], True],
        [["training failed", ""], True],
        [["training failed early", ""], False],
        [["training failed", ""], False],
    ]


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
