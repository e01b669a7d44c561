"""Say what works on this machine, and what to do about the rest.

Looks at GMLake's own library, its options in the environment, the NVIDIA driver and
its devices, PyTorch (without importing it), the bridge to it (compiled now if it never
was), and the emulated device (a child process imports PyTorch on it). What is merely
missing is fine: replay needs neither a GPU nor PyTorch.

examples:
  gmlake doctor
  gmlake doctor --json

exit status: 0 unless something that is here is broken.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.markup import escape
from rich.padding import Padding

from gmlake import __version__, _core
from gmlake.cache import cache_folder
from gmlake.emulator.devices import find_device
from gmlake.emulator.launch import Plan, environment, native_library, torch_libraries
from gmlake.emulator.standins import find_torch
from gmlake.errors import Error, InvalidArgument, UserError
from gmlake.terminal import standard_output
from gmlake.torch.activation import check_environment
from gmlake.torch.bridge.building import build, turned_off

NAME = "doctor"
SHOWN = "a100-80g"  # the card that is tried
PATIENCE = 120  # seconds; importing PyTorch from a slow disk takes long
MARKS = {"ok": "[green]✓[/]", "missing": "[yellow]–[/]", "broken": "[red]✗[/]"}
PLAIN_MARKS = {"ok": "[green]+[/]", "missing": "[yellow]-[/]", "broken": "[red]x[/]"}  # where there are no others


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "missing", "broken"]
    found: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--json", action="store_true", help='print {"ok": ..., "checks": [...]} and nothing else')


def run(args: argparse.Namespace) -> int:
    """Look, and print what was found."""
    driver = check_driver()
    devices = check_devices() if driver.state == "ok" else []
    checks = [check_core(), check_variables(), driver, *devices, check_torch(), check_bridge(), check_emulated()]
    ok = all(check.state != "broken" for check in checks)
    if args.json:
        print(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=2))
        return 0 if ok else 1
    console = standard_output()
    marks = MARKS if console.encoding.startswith("utf") else PLAIN_MARKS
    for check in checks:
        console.print(f"{marks[check.state]} [bold]{check.name}[/]: {escape(check.found)}", highlight=False)
        if check.advice:
            console.print(Padding(escape(check.advice), (0, 0, 0, 2), expand=False), style="dim")
    console.print("\nNext: gmlake replay TRACE compares allocators on a recorded run, on any machine.", style="dim")
    if checks[-1].state == "ok":
        console.print(f"Or: gmlake run --emulate {SHOWN} -- python train.py shows what a script needs.", style="dim")
    return 0 if ok else 1


def check_core() -> Check:
    """Make our allocator serve one request on the simulated device."""
    machine = f"{platform.system()} {platform.machine()}"
    found = f"gmlake {__version__} on Python {platform.python_version()}, {machine}"
    try:
        allocator = _core.make_allocator("gmlake", _core.SimulatedDriver())
        allocator.release(allocator.allocate(1 << 20))
        allocator.check()
    except Error as error:
        return Check("gmlake", "broken", f"{found}: {error}", "Install it again; if that does not help, report it.")
    return Check("gmlake", "ok", f"{found}; replay works")


def check_variables() -> Check:
    """Look at the options in the environment: one that is wrong keeps GMLake from serving a process."""
    name = "environment"
    try:
        check_environment()
    except (UserError, InvalidArgument) as error:
        advice = "GMLake serves no process with it, PyTorch's own allocator does; correct the variable or unset it."
        return Check(name, "broken", str(error), advice)
    known = sorted(variable for variable in os.environ if variable.split("_")[0] == "GMLAKE")
    return Check(name, "ok", f"{', '.join(known)}: understood" if known else "sets no option of GMLake")


def check_driver() -> Check:
    """Look for libcuda and its version."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        advice = "Needed only to serve a GPU: install the NVIDIA driver. Replay works without it."
        return Check("NVIDIA driver", "missing", "libcuda.so.1 was not found", advice)
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return Check("NVIDIA driver", "broken", "libcuda.so.1 does not tell its version", "Install the driver again.")
    major, minor = version.value // 1000, version.value % 1000 // 10
    return Check("NVIDIA driver", "ok", f"libcuda.so.1 for CUDA {major}.{minor}")


def check_devices() -> list[Check]:
    """Open every device; that also tells whether it has virtual memory management."""
    try:
        count = _core.CudaDriver.device_count()
    except Error as error:
        return [Check("GPU", "missing", str(error), "Replay works without it.")]
    if count == 0:
        advice = "Is CUDA_VISIBLE_DEVICES empty? Replay works without a GPU."
        return [Check("GPU", "missing", "the driver sees no device", advice)]
    return [_check_device(number) for number in range(count)]


def _check_device(number: int) -> Check:
    name = f"GPU {number}"
    try:
        driver = _core.CudaDriver(number)
        status, free, total = driver.memory_info()
    except Error as error:
        advice = "GMLake needs a card and driver with CUDA virtual memory management (cuMemMap)."
        return Check(name, "broken", str(error), advice)
    if status != _core.Status.success:
        return Check(name, "broken", f"the driver does not tell its memory: {status.name}", "Is the device lost?")
    memory = f"{_core.format_bytes(free)} of {_core.format_bytes(total)} free"
    granule = _core.format_bytes(driver.granularity)
    return Check(name, "ok", f"{memory}; virtual memory management in pieces of {granule}")


def check_torch() -> Check:
    """Look PyTorch up among the installed packages."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        advice = "Needed to run training here (gmlake run). Snapshots from elsewhere can be replayed without it."
        return Check("PyTorch", "missing", "not installed in this environment", advice)
    return Check("PyTorch", "ok", f"torch {version}")


def check_bridge() -> Check:
    """Compile the bridge, or find it compiled, and say which way GMLAKE=1 takes."""
    name = "bridge"
    folder = find_torch()
    if folder is None:
        return Check(name, "missing", "there is no PyTorch to reach", "Needed only to train with GMLake.")
    built = turned_off() or build(folder.parent)
    if built.library is not None:
        return Check(name, "ok", f"compiled for this PyTorch in {built.library.parent}; GMLAKE=1 uses it")
    advice = "GMLake serves PyTorch without it, except for MemPool, cudnn.benchmark, graph trees and shared tensors."
    if "compiler was found" in built.reason:
        advice += " Install a C++20 compiler, such as g++."
    return Check(name, "missing", f"GMLAKE=1 does without: {built.reason}", advice)


def check_emulated() -> Check:
    """Let PyTorch start on an emulated card, in a child process."""
    name = "emulated device"
    try:
        torch_libraries()
        native_library()
    except UserError as error:
        return Check(name, "missing", str(error), "Needed only for gmlake run --emulate.")
    kept = set(cache_folder().glob("*/*.so"))
    program = "import torch; torch.empty(1, device='cuda'); print(torch.cuda.get_device_name())"
    with tempfile.TemporaryDirectory(prefix="gmlake-") as session:
        try:
            child = environment(Plan(Path(session), find_device(SHOWN)), os.environ)
            done = subprocess.run(
                [sys.executable, "-c", program], env=child, capture_output=True, text=True, timeout=PATIENCE
            )
        except UserError as error:
            return Check(name, "broken", str(error), "Everything else works without it.")
        except subprocess.TimeoutExpired:
            return Check(name, "broken", f"PyTorch did not start within {PATIENCE} s", "Is the machine overloaded?")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return Check(
            name, "broken", f"PyTorch does not start on it: {last}", f"See: gmlake run --emulate {SHOWN} -- python"
        )
    cached = "cached" if Path(child["LD_PRELOAD"].split(":")[1]) in kept else "now made and kept"
    return Check(
        name, "ok", f"PyTorch runs on an emulated {done.stdout.strip()}; stand-ins {cached} in {cache_folder()}"
    )
