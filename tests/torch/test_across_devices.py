"""Memory of one device that streams of another use, and copies between cards that cannot reach each other."""

from __future__ import annotations

import pytest

from tests.emulator.running import Emulated

from .conftest import Run

# A block of device 0 is written by a stream of device 1, and freed; whoever gets its memory writes to it too.
FOREIGN = """
import ctypes, json, torch
cuda = ctypes.CDLL(None)
SIZE, PART = 4 << 20, ctypes.c_size_t(4096)
def write(block, stream):
    assert cuda.cudaMemsetAsync(ctypes.c_void_p(block.data_ptr()), 1, PART, ctypes.c_void_p(stream)) == 0
def block():
    return torch.empty(SIZE, dtype=torch.uint8, device="cuda:0")
found = []
torch.empty(1, device="cuda:1")
for make in (torch.cuda.Stream, torch.cuda.default_stream)[:STREAMS]:
    torch.cuda.synchronize(0)
    used = block()
    with torch.cuda.device(1):
        stream = make()
        write(used, stream.cuda_stream)
    used.record_stream(stream)
    del used
    taken = [block() for _ in range(2)]
    for other in taken:
        write(other, 0)
    found.append(cuda.gmlake_device_hazards())
    del taken, other
torch.cuda.synchronize(0)
print(json.dumps([found, torch.cuda.memory_allocated(0)]))
"""
TWO = ("--gpus", "2", "--hazards", "--kernel-us", "50")


def test_streams_of_another_device_keep_memory_until_their_work_is_done(either: Run, native: Run) -> None:
    program = FOREIGN.replace("STREAMS", "1")
    assert either(program, *TWO) == native(program, *TWO) == [[0], 0]


def test_its_default_stream_too_over_the_bridge(bridge: None, gmlake: Run) -> None:
    """PyTorch's own allocator takes it for the default stream of the block's device, and so does the plain route."""
    assert gmlake(FOREIGN.replace("STREAMS", "2"), *TWO) == [[0, 0], 0]


COPIES = """
import json, torch
here = torch.arange(1000, device="cuda:0")
there = here.to("cuda:1")
print(json.dumps([torch.cuda.can_device_access_peer(0, 1), there.cpu().sum().item()]))
"""
GEFORCE = ("--gpus", "2", "--compute")


@pytest.mark.parametrize("allocator", ["torch", "expandable", "gmlake"])
def test_copies_between_cards_that_cannot_reach_each_other(bridge: None, emulated: Emulated, allocator: str) -> None:
    done = emulated(COPIES, "--allocator", allocator, *GEFORCE, device="rtx4090-24g")
    assert (done.status, done.stdout) == (0, "[false, 499500]\n"), done.stderr


def test_which_need_the_bridge(emulated: Emulated) -> None:
    done = emulated(COPIES, "--allocator", "gmlake", *GEFORCE, device="rtx4090-24g", env={"GMLAKE_BRIDGE": "0"})
    assert done.status != 0
    assert "CUDA error: invalid argument" in done.stderr
