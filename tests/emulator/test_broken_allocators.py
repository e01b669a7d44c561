"""Mistakes of an allocator that a GPU would show now and then, and the emulated device shows every time."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulator.running import Emulated

SOURCE = Path(__file__).with_name("broken_allocator.c")

PLUG = """
import sys, torch
library = sys.argv[1]
if library != "none":
    memory = torch.cuda.memory
    memory.change_current_allocator(memory.CUDAPluggableAllocator(library, "allocate", "release"))
"""

TWO_STREAMS = """
host = torch.ones(1 << 20).pin_memory()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x = torch.empty(1 << 20, device="cuda")
    x.copy_(host, non_blocking=True)
del x  # the copy may still be under way
y = torch.empty(1 << 20, device="cuda")
y.copy_(host, non_blocking=True)
torch.cuda.synchronize()
"""

TRAINING = """
import json
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for step in range(6):
    loss = model(torch.randn(32, 64, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item().hex())
print(json.dumps(losses))
"""


def build(folder: Path, mistake: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / f"{mistake or 'right'}.so"
    defines = [f"-D{mistake}"] if mistake else []
    subprocess.run([compiler, "-shared", "-fPIC", "-w", *defines, "-o", library, SOURCE], check=True)
    return library


@pytest.mark.parametrize(("mistake", "found"), [("GREEDY", True), ("", False), ("none", False)])
def test_reuse_before_a_fence_is_a_hazard(emulated: Emulated, tmp_path: Path, mistake: str, found: bool) -> None:
    library = mistake if mistake == "none" else build(tmp_path, mistake)
    done = emulated(PLUG + TWO_STREAMS, "--hazards", arguments=(library,))
    assert done.status == 0, done.stderr
    [process] = done.report["processes"]
    assert (process["hazards"] > 0) == found
    assert ("is not ordered after" in done.stderr) == found


def test_overlapping_blocks_change_the_values(emulated: Emulated, tmp_path: Path) -> None:
    losses = {}
    for mistake in ("none", "", "OVERLAP"):
        library = mistake if mistake == "none" else build(tmp_path, mistake)
        done = emulated(PLUG + TRAINING, "--compute", arguments=(library,))
        assert done.status == 0, done.stderr
        losses[mistake] = json.loads(done.stdout.splitlines()[-1])
    assert losses[""] == losses["none"]
    assert losses["OVERLAP"] != losses["none"]
