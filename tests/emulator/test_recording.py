"""Traces recorded from the real PyTorch: what is in them, and that every way to end a program leaves one."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from gmlake.replay import replay
from gmlake.trace import Kind, Trace, read_trace
from tests.emulator.running import Done, Emulated

MIB = 1 << 20
TRAINING = """
import torch, sys, os, signal
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def step(rows=256, backwards=1):
    for _ in range(backwards):
        model(torch.empty(rows, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def record(emulated: Emulated, folder: Path, program: str, *options: object, **more: Any) -> tuple[Done, list[Trace]]:
    done = emulated(program, "--record", folder / "out.gmt", *options, **more)
    return done, [read_trace(trace["path"], find_marks=False) for trace in done.report.get("traces", [])]


def test_the_trace_is_what_pytorch_did(emulated: Emulated, tmp_path: Path) -> None:
    """Replayed on its rivals, it takes the very bytes that PyTorch reported."""
    program = TRAINING + "for rows in (100, 3000, 200, 4000, 300): step(rows)\n"
    for conf, rival in (("", "caching"), ("expandable_segments:True", "expandable")):
        folder = tmp_path / rival
        folder.mkdir()
        done, [trace] = record(emulated, folder, program, env={"PYTORCH_ALLOC_CONF": conf} if conf else {})
        assert done.status == 0, done.stderr
        result = replay(trace, rival).result
        found = done.device
        assert result.peak_reserved == found["peak_reserved"]
        assert result.peak_requested == found["peak_requested"]
        assert result.peak_active <= found["peak_active"]  # PyTorch counts what it did not split
        assert (trace.iterations, trace.marks_from, trace.initial) == (5, "recorded", 0)
        assert trace.call_sites is None


def test_iterations_end_with_a_step_after_a_backward_pass(emulated: Emulated, tmp_path: Path) -> None:
    program = (
        TRAINING
        + """
other = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    step(backwards=4)   # accumulated gradients: one iteration
    other.step()        # no backward pass since: the same iteration
    torch.empty(12345, device="cuda")
torch.cuda.empty_cache()
with torch.no_grad():
    model(torch.empty(64, 1024, device="cuda"))
"""
    )
    _, [trace] = record(emulated, tmp_path, program)
    assert trace.iterations == 3
    sizes = [int(size) for size in trace.size[trace.kind == Kind.ALLOCATE]]
    assert sizes.count(12345 * 4) == 3
    starts = [int(mark) for mark in trace.marks]
    # Twelve parameters and the first batch are there before the first forward pass; what comes after a step belongs to
    # the next iteration.
    assert int((trace.kind[: starts[0]] == Kind.ALLOCATE).sum()) == 13
    marked = [int(size) for size in trace.size[[mark + 1 for mark in starts[1:]]]]
    assert marked == [12345 * 4] * 2
    [trim] = [int(index) for index in (trace.kind == Kind.TRIM).nonzero()[0]]
    assert trim > starts[-1]


ENDS = {
    "exit": ("sys.exit(7)", 7),
    "exception": ("raise ValueError('no')", 1),
    "out of memory": ("torch.empty(1 << 40, device='cuda')", 1),
    "interrupt": ("raise KeyboardInterrupt", 130),
    "terminated": ("os.kill(os.getpid(), signal.SIGTERM)", 143),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_end_leaves_a_trace(emulated: Emulated, tmp_path: Path, end: str) -> None:
    statement, status = ENDS[end]
    done, [trace] = record(emulated, tmp_path, TRAINING + f"step(); step()\n{statement}\n")
    assert done.status == status, done.stderr
    assert trace.iterations == 2
    [process] = done.report["processes"]
    expected = {
        "exit": None,
        "exception": "ValueError: no",
        "interrupt": "KeyboardInterrupt: ",
        "terminated": "SIGTERM",
    }
    if end in expected:
        assert process["ended"] == expected[end]
    else:
        assert process["ended"].startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4096.00 GiB")
        assert done.device["out_of_memory"] == 1
        assert "memory of the emulated device ran out" in done.stderr


def test_a_full_history_says_so(emulated: Emulated, tmp_path: Path) -> None:
    program = (
        """
import torch
from gmlake.emulator.inside import recording
recording.ENTRIES = 400
"""
        + TRAINING
        + "for _ in range(12): step()\n"
    )
    done, [trace] = record(emulated, tmp_path, program)
    [file] = done.report["traces"]
    assert file["beginning_lost"]
    assert 0 < trace.iterations < 12
    assert trace.initial >= 12
    shown = emulated(program, "--record", tmp_path / "again.gmt", json_report=False)
    assert "older events were lost" in shown.stderr
    assert f"Next: gmlake replay {tmp_path / 'again.gmt'}" in shown.stderr


def test_a_long_history_is_taken_over_in_parts(emulated: Emulated, tmp_path: Path) -> None:
    program = TRAINING + "for rows in (100, 3000, 200, 4000, 300, 50, 2000): step(rows)\ntorch.cuda.empty_cache()\n"
    often = "import torch\nfrom gmlake.emulator.inside import recording\nrecording.COLLECT = 100\n"
    traces = []
    for name, text in (("whole", program), ("parts", often + program)):
        (tmp_path / name).mkdir()
        done, [trace] = record(emulated, tmp_path / name, text)
        assert replay(trace, "caching").result.peak_reserved == done.device["peak_reserved"]
        traces.append(trace)
    whole, parts = traces
    assert not done.report["traces"][0]["beginning_lost"]
    assert (whole.kind == parts.kind).all()
    assert (whole.size == parts.size).all()
    assert (whole.initial, parts.initial) == (0, 0)


def test_the_program_may_record_too(emulated: Emulated, tmp_path: Path) -> None:
    """Neither its smaller history nor its stopping takes anything from ours."""
    program = (
        TRAINING
        + """
torch.cuda.memory._record_memory_history(max_entries=10)
step(); step()
torch.cuda.memory._dump_snapshot(sys.argv[1])
torch.cuda.memory._record_memory_history(enabled=None)
step()
"""
    )
    done, [trace] = record(emulated, tmp_path, program, arguments=(tmp_path / "own.pickle",))
    assert done.status == 0, done.stderr
    assert trace.iterations == 3
    assert len(read_trace(tmp_path / "own.pickle")) > 100


def test_stacks(emulated: Emulated, tmp_path: Path) -> None:
    _, [trace] = record(emulated, tmp_path, TRAINING + "step()\n", "--stacks")
    assert trace.call_sites is not None
    assert trace.site is not None
    names = {frame.name for frame in trace.call_sites.frames}
    assert {"step", "forward"} <= names


def test_two_devices_of_one_process(emulated: Emulated, tmp_path: Path) -> None:
    program = "import torch; x = [torch.empty(3 << 20, device=f'cuda:{n}') for n in range(2)]"
    done, traces = record(emulated, tmp_path, program, "--gpus", 2)
    assert [trace.device for trace in traces] == [0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.gpu0.gmt", "out.gpu1.gmt"]
    before = (tmp_path / "out.gpu0.gmt").read_bytes()
    again, _ = record(emulated, tmp_path, program.replace("3 <<", "4 <<"), "--gpus", 2)
    assert (again.status, again.stderr.count("out.gpu0.gmt exists already")) == (2, 1)
    assert (tmp_path / "out.gpu0.gmt").read_bytes() == before
    [process] = done.report["processes"]
    assert [device["device"] for device in process["devices"]] == [0, 1]


def test_a_trace_that_cannot_be_written_in_the_end(emulated: Emulated, tmp_path: Path) -> None:
    """The program's work was not in vain: what it needed is shown."""
    folder = tmp_path / "folder"
    folder.mkdir()
    program = f"import torch, os; torch.empty(3 << 20, device='cuda'); os.rmdir({str(folder)!r})"
    done = emulated(program, "--record", folder / "out.gmt", json_report=False)
    assert done.status == 1
    assert "12.00 MiB" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == f"gmlake: error: {folder}/out.gmt cannot be written: No such file or directory"


def test_a_trace_is_written_through_a_link(emulated: Emulated, tmp_path: Path) -> None:
    """As gmlake convert does: what the link leads to is overwritten, and the link stays."""
    kept, link = tmp_path / "kept.gmt", tmp_path / "out.gmt"
    kept.write_bytes(b"old")
    link.symlink_to(kept)
    done, [trace] = record(emulated, tmp_path, "import torch; torch.empty(9, device='cuda')", "-f")
    assert done.status == 0, done.stderr
    assert link.is_symlink() and len(read_trace(kept, find_marks=False)) == len(trace)


def test_processes_of_torchrun(emulated: Emulated, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        TRAINING.replace(
            "import torch, sys",
            "import torch, sys\ntorch.cuda.set_device(int(__import__('os').environ['LOCAL_RANK']))\nimport sys",
        )
        + "step(); step()\n"
    )
    command: list[object] = ["torchrun", "--nproc-per-node", 2, program]
    done = emulated.command(command, "--gpus", 2, "--record", tmp_path / "out.gmt")
    assert done.status == 0, done.stderr
    assert [trace["rank"] for trace in done.report["traces"]] == [0, 1]
    assert sorted(path.name for path in tmp_path.glob("*.gmt")) == ["out.rank0.gmt", "out.rank1.gmt"]
    assert [read_trace(trace["path"]).device for trace in done.report["traces"]] == [0, 1]


def test_children_without_a_device_report_nothing(emulated: Emulated, tmp_path: Path) -> None:
    program = """
from torch.utils.data import DataLoader
for method in ("fork", "spawn"):
    loader = DataLoader(list(range(40)), 4, num_workers=2, pin_memory=True, multiprocessing_context=method)
    for batch in loader:
        step(len(batch))
pid = os.fork()
if pid == 0:
    sys.exit(0)
os.waitpid(pid, 0)
"""
    path = tmp_path / "train.py"
    path.write_text("if __name__ == '__main__':\n" + textwrap.indent(TRAINING + program, "    "))
    done = emulated(path, "--record", tmp_path / "out.gmt")
    assert done.status == 0, done.stderr
    [process] = done.report["processes"]
    assert process["traces"][0]["iterations"] == 20


def test_a_child_that_uses_the_device_itself(emulated: Emulated, tmp_path: Path) -> None:
    """Forked before CUDA was initialised, it has a device of its own, and a report."""
    program = """
import multiprocessing, torch
def work():
    torch.empty(7 << 20, dtype=torch.uint8, device="cuda")
child = multiprocessing.get_context("fork").Process(target=work)
child.start(); child.join()
"""
    done, [trace] = record(emulated, tmp_path, program)
    assert int(trace.size.max()) == 7 * MIB
    assert done.device["peak_requested"] == 7 * MIB


def test_an_allocator_without_a_history(emulated: Emulated, tmp_path: Path) -> None:
    env = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    done, traces = record(emulated, tmp_path, TRAINING + "step()\n", env=env)
    assert done.status == 0, done.stderr
    assert traces == []
    assert done.device["peak_reserved"] > 0
    shown = emulated(TRAINING + "step()\n", "--record", tmp_path / "out.gmt", env=env, json_report=False)
    assert "cudaMallocAsync does not yet support recordHistory" in shown.stderr
