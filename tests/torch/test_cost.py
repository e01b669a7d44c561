"""What an allocation costs: instructions of a warm pair, counted one by one, against PyTorch's own allocator.

On the emulated device both sides also report every block (for fresh contents); on a GPU GMLake reports only while a
profiler runs, so that its share is smaller there.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulator.running import Emulated

from .conftest import HERE

# The largest first: to a program that repeats itself, as those before it would make this one look, a new size would be
# served stitched from what is free between the blocks below, and such a block costs by its pieces.
SIZES = (40 << 20, 3 << 20, 300_000, 1000)
PROGRAM = """
import ctypes, os, sys, torch
assert torch.__version__.startswith("2.14"), "the places of virtual functions are those of 2.14"
pairs = ctypes.CDLL(sys.argv[1])
keep = [torch.empty(1 << 10 + i % 14, dtype=torch.uint8, device="cuda") for i in range(500)]
del keep[::3]
library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10_cuda.so"))
allocator = ctypes.c_void_p.in_dll(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE")
pairs.nothing()
for size in map(int, sys.argv[2:]):
    if torch.cuda.get_allocator_backend() == "gmlake":
        from gmlake import _core
        functions = _core.torch_callbacks()
        pointers = [ctypes.c_void_p(functions[name]) for name in ("allocate", "free")]
        pairs.callbacks(*pointers, ctypes.c_size_t(size))
    pairs.object(allocator, ctypes.c_size_t(size))
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the counter with")
    folder = tmp_path_factory.mktemp("native")
    stepper, pairs = folder / "single_step", folder / "pairs.so"
    subprocess.run([compiler, "-O2", HERE / "native" / "single_step.c", "-o", stepper], check=True)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", HERE / "native" / "pairs.c", "-o", pairs], check=True)
    return stepper, pairs


def count(emulated: Emulated, tools: tuple[Path, Path], allocator: str) -> list[int]:
    """Instructions of a pair of each size, without those of the signals; ours alone, then with PyTorch's part."""
    stepper, pairs = tools
    done = emulated.command([stepper, "python", "-c", PROGRAM, pairs, *SIZES], "--allocator", allocator)
    counts = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("instructions")]
    if not counts:
        pytest.skip("this machine does not let a process be traced")
    assert len(counts) == 1 + len(SIZES) * (1 + (allocator == "gmlake")), done.stderr
    return [counted - counts[0] for counted in counts[1:]]


def test_a_pair_takes_a_third_of_pytorchs_instructions(emulated: Emulated, tools: tuple[Path, Path]) -> None:
    ours, theirs = (count(emulated, tools, allocator) for allocator in ("gmlake", "torch"))
    for size, callbacks, whole, other in zip(SIZES, ours[::2], ours[1::2], theirs, strict=True):
        assert 3 * callbacks <= other, (size, callbacks, other)
        assert 3 * whole <= 2 * other, (size, whole, other)
