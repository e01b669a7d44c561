"""gmlake run --emulate, as a user runs it: the card, the peaks, the report, and every bad end in one sentence."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gmlake import report
from gmlake.emulator.devices import CATALOGUE, Device
from gmlake.emulator.launch import Plan, environment
from tests.emulator.running import Emulated

MIB, GIB = 1 << 20, 1 << 30
# The driver answers without PyTorch, which takes seconds to start.
ASK_DRIVER = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
def number(function, *arguments, kind=ctypes.c_int):
    out = kind()
    assert function(ctypes.byref(out), *arguments) == 0
    return out.value
assert cuda.cuInit(0) == 0
name = ctypes.create_string_buffer(100)
assert cuda.cuDeviceGetName(name, 100, 0) == 0
attribute = lambda which: number(cuda.cuDeviceGetAttribute, which, 0)
print(json.dumps({
    "count": number(cuda.cuDeviceGetCount), "name": name.value.decode(),
    "memory": number(cuda.cuDeviceTotalMem_v2, 0, kind=ctypes.c_size_t),
    "capability": [attribute(75), attribute(76)], "multiprocessors": attribute(16),
    "bus_width": attribute(37), "l2_bytes": attribute(38), "clock_mhz": attribute(13) // 1000,
}))
"""

TOY_ALLOCATOR = """
#include <sys/types.h>
int cudaMalloc(void** at, size_t size);
int cudaFree(void* at);
void* take(ssize_t size, int device, void* stream) { void* at = 0; cudaMalloc(&at, size); return at; }
void give(void* at, ssize_t size, int device, void* stream) { cudaFree(at); }
"""


@pytest.mark.parametrize("card", CATALOGUE, ids=lambda card: card.key)
def test_the_driver_describes_the_card(emulated: Emulated, card: Device) -> None:
    done = emulated(ASK_DRIVER, "--gpus", 3, device=card.key)
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("count") == 3
    assert told.pop("capability") == list(card.capability)
    assert told == {name: getattr(card, name) for name in told}


def test_pytorch_sees_the_card(emulated: Emulated) -> None:
    program = """
import torch
p = torch.cuda.get_device_properties(0)
print(p.name, p.total_memory, p.major, p.minor, p.multi_processor_count, p.L2_cache_size, torch.cuda.device_count())
print(torch.cuda.mem_get_info(), torch.cuda.is_bf16_supported())
"""
    done = emulated(program, "--memory", "24GiB", device="h100-80g")
    first, second = done.stdout.splitlines()
    assert first == f"NVIDIA H100 80GB HBM3 {24 * GIB} 9 0 132 {50 * MIB} 1"
    assert second == f"({24 * GIB}, {24 * GIB}) True"


def test_peaks_are_those_of_the_whole_run(emulated: Emulated) -> None:
    """A program that resets its peaks does it for itself."""
    program = """
import torch
x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
del x
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
torch.accelerator.reset_peak_memory_stats()
y = torch.empty((3 << 20) - 100, dtype=torch.uint8, device="cuda")
print(torch.cuda.max_memory_reserved())
"""
    done = emulated(program)
    assert done.stdout == f"{20 * MIB}\n"
    assert done.device["peak_requested"] == 100 * MIB
    assert done.device["peak_reserved"] == done.device["peak_on_device"] == 100 * MIB
    assert done.report["emulated"] == {"device": "a100-80g", "memory": 85094825984, "gpus": 1}


def test_counts_are_those_of_the_whole_run(emulated: Emulated) -> None:
    program = """
import torch
for reset in (torch.cuda.reset_accumulated_memory_stats, torch.accelerator.reset_accumulated_memory_stats, int):
    try:
        torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        reset()
"""
    done = emulated(program, "--memory", "4GiB")
    assert done.status == 0, done.stderr
    assert (done.device["retries"], done.device["out_of_memory"]) == (3, 3)


def test_a_loop_that_waits_for_a_value_is_named(emulated: Emulated) -> None:
    program = """
import torch
x = torch.ones(1, device="cuda")
for _ in range(6000):
    bool(x)
"""
    done = emulated(program)
    named = [line for line in done.stderr.splitlines() if line.startswith("gmlake: ")]
    assert named == [
        "gmlake: <string>:5 has read 5,000 values that are not real; if this loop does not end, use --compute"
    ]


def test_reads_below_our_own_kernels_are_the_programs(emulated: Emulated) -> None:
    done = emulated("import torch; x = torch.zeros(3, device='cuda'); print(torch.equal(x, x.clone()))", "--hazards")
    [process] = done.report["processes"]
    assert {read["place"] for read in process["reads"]} == {"<string>:1"}


def test_the_report_is_for_people(emulated: Emulated) -> None:
    program = "import torch; x = torch.ones(5, device='cuda'); print(x.sum().item())"
    done = emulated(program, "--memory", "4GiB", json_report=False)
    assert done.stdout == "0.0\n"
    assert "emulated device, NVIDIA A100-SXM4-80GB with 4.00 GiB; nothing is computed" in done.stderr
    assert "2.00 MiB" in done.stderr
    assert "read back, though they are not real:\n       1 ×  <string>:1" in done.stderr


def test_gmlake_report_reads_what_is_written(emulated: Emulated, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    done = emulated("import torch; x = torch.ones(5, device='cuda')", "--json", run)
    assert done.status == 0, done.stderr
    [subject] = report.write([run], tmp_path / "report.html")
    [process] = subject.processes
    assert process["devices"][0]["peak_reserved"] == 2 * MIB
    assert report.headline(subject) == "1 process"


def test_an_allocator_that_was_plugged_in(emulated: Emulated, tmp_path: Path) -> None:
    """It keeps no statistics for PyTorch, but the device knows what it took."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    (tmp_path / "toy.c").write_text(TOY_ALLOCATOR)
    library = tmp_path / "toy.so"
    subprocess.run([compiler, "-shared", "-fPIC", str(tmp_path / "toy.c"), "-o", str(library)], check=True)
    program = f"""
import torch
allocator = torch.cuda.memory.CUDAPluggableAllocator({str(library)!r}, "take", "give")
torch.cuda.memory.change_current_allocator(allocator)
x = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
"""
    done = emulated(program, "--record", tmp_path / "out.gmt")
    assert done.status == 0, done.stderr
    assert done.device["peak_reserved"] is None
    assert done.device["peak_on_device"] == 8 * MIB
    assert "problem" in done.report["processes"][0]["traces"]
    shown = emulated(program, json_report=False)
    assert "8.00 MiB" in shown.stderr


def test_a_script_that_chooses_another_allocator(emulated: Emulated) -> None:
    program = """
import os
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import torch
torch.empty(1, device="cuda")
"""
    for allocator, told in (("torch", 1), ("expandable", 0), ("gmlake", 0)):
        done = emulated(program, "--allocator", allocator)
        assert done.status == 0
        served = "the run with --allocator torch was served by PyTorch's allocator with expandable segments, "
        assert done.stderr.count(served) == told
        assert done.report["processes"][0].get("expandable") is (None if allocator == "gmlake" else True)


@pytest.mark.parametrize(
    ("program", "status", "sentence"),
    [
        ("torch.empty(1 << 36, device='cuda')", 1, "memory of the emulated device ran out"),
        ("raise MemoryError", 1, "this machine has not enough memory"),
        ("import os; os.kill(os.getpid(), 11)", 139, "was ended by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", 137, "was killed with SIGKILL"),
        ("import os; os.abort()", 134, "was ended by SIGABRT"),
    ],
)
def test_bad_ends(emulated: Emulated, program: str, status: int, sentence: str) -> None:
    done = emulated(f"import torch\ntorch.empty(1, device='cuda')\n{program}\n")
    assert done.status == status
    [said] = [line for line in done.stderr.splitlines() if line.startswith("gmlake: ")]
    assert sentence in said


@pytest.mark.parametrize("idle", [False, True])
def test_gmlake_is_suggested_where_it_could_help(emulated: Emulated, idle: bool) -> None:
    """Memory runs out beside segments of which most was freed, or nothing."""
    program = f"""
import torch
blocks = [torch.empty(5 << 20, dtype=torch.uint8, device="cuda") for _ in range(600)]
if {idle}:
    blocks = blocks[::4]
while True:
    blocks.append(torch.empty(400 << 20, dtype=torch.uint8, device="cuda"))
"""
    done = emulated(program, "--memory", "7GiB", json_report=False)
    assert done.status == 1
    assert ("--allocator gmlake" in done.stderr) == idle


def test_what_is_not_emulated_is_named(emulated: Emulated) -> None:
    program = """
import ctypes, torch
torch.empty(1, device="cuda")
for _ in range(3):
    print(ctypes.CDLL("libcuda.so.1").cuMulticastCreate(0, 0))
"""
    done = emulated(program)
    assert done.stdout == "801\n" * 3
    assert done.report["unimplemented"] == ["cuMulticastCreate"]
    assert "Not implemented, but called: cuMulticastCreate." in emulated(program, json_report=False).stderr


def test_starting_costs_little(emulated: Emulated, tmp_path: Path) -> None:
    """At most a second over a plain `import torch`, once the stand-ins are made; processor time, as others run too."""

    def seconds(command: list[str], env: dict[str, str] | None) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Without NVIDIA's libraries or ours PyTorch cannot be imported: the plain import has the preloaded ones only.
    child = environment(Plan(tmp_path, CATALOGUE[0]), os.environ)
    bare = {name: value for name, value in child.items() if name != "GMLAKE_EMULATE"}
    plain = [sys.executable, "-c", "import torch"]
    ours = [sys.executable, "-m", "gmlake", "run", "--emulate", CATALOGUE[0].key, "--", *plain]
    times = [(seconds(plain, bare), seconds(ours, None)) for _ in range(3)]
    assert min(with_us for _, with_us in times) < min(without for without, _ in times) + 1.0
