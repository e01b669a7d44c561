"""From what the user asked for to the environment of the child. Starts nothing and imports no torch.

The child is an ordinary process: whatever it starts (torchrun's workers, data loaders, a shell) inherits the
environment and with it the emulated device. The user's torch is only looked at, never changed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gmlake
from gmlake.emulator.devices import Device
from gmlake.emulator.standins import find_torch, stand_ins
from gmlake.emulator.standins.cache import LINKABLE
from gmlake.errors import UserError
from gmlake.torch.activation import OFF

MOST_GPUS = 64
GPUS_OF_A_NODE = 8
_SETTINGS_FOR_US = ("GMLAKE_EMULATE", "GMLAKE_RECORD")
_PORT = "29500"
ALLOCATORS = ("torch", "expandable", "gmlake")
CACHES = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}  # of what was compiled: our folders
_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")  # of PyTorch's own allocator; the first one counts
_ALLOCATING = ("backend", "expandable_segments")  # settings that choose an allocator, which --allocator does


@dataclass(frozen=True)
class Plan:
    """One run: what is emulated, what is watched, who allocates.

    Without a device the child runs on whatever is there. Without an allocator the environment decides, and else
    GMLake serves a real device, and PyTorch's own allocator an emulated one.
    """

    session: Path  # a folder of this run, where its processes leave what they found
    device: Device | None = None
    gpus: int = 1
    world_size: int | None = None  # with it, the one process is rank `rank` of so many
    rank: int = 0
    compute: bool = False
    record: Path | None = None
    stacks: bool = False
    kernel_us: float = 0.0
    hazards: bool = False
    leaks: bool = False
    allocator: str | None = None  # one of ALLOCATORS

    def emulated_json(self) -> dict[str, object] | None:
        """What is emulated, as plain data."""
        if self.device is None:
            return None
        return {"device": self.device.key, "memory": self.device.memory, "gpus": self.gpus}


def default_gpus(world_size: int | None) -> int:
    """As many devices as a rank would see: those of its node, at most eight."""
    return 1 if world_size is None else min(world_size, GPUS_OF_A_NODE)


def environment(plan: Plan, base: Mapping[str, str]) -> dict[str, str]:
    """The child's environment, from ours."""
    child = {name: value for name, value in base.items() if name not in ("GMLAKE_DEVICE", *_SETTINGS_FOR_US)}
    _choose_allocator(child, plan)
    # `python` in the command means the interpreter that has gmlake, and so the torch beside it.
    child["PATH"] = os.pathsep.join(part for part in (str(Path(sys.executable).parent), base.get("PATH", "")) if part)
    child["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"  # the part of us that runs in the child comes in this way
    settings = _settings(plan)
    around = base.get("GMLAKE_EMULATE")
    if plan.device is None and around is not None:  # we run on an emulated device ourselves, and so does the child
        child["GMLAKE_DEVICE"] = base["GMLAKE_DEVICE"]
        settings = json.loads(around) | {name: settings[name] for name in ("record", "stacks", "session")}
    child["GMLAKE_RECORD" if settings["device"] is None else "GMLAKE_EMULATE"] = json.dumps(settings)
    if plan.device is not None:
        child["GMLAKE_DEVICE"] = device_text(plan, plan.device)
        ours = _preloaded()
        child["LD_PRELOAD"] = _preload(ours, base.get("LD_PRELOAD", ""))
        # It chooses among the devices of this machine, and the child does not see those.
        child.pop("CUDA_VISIBLE_DEVICES", None)
        child |= _compilers(ours[-1].parent, base)
    if plan.world_size is not None:
        child |= _rank_variables(plan.world_size, plan.rank, plan.gpus)
    return child


def _choose_allocator(child: dict[str, str], plan: Plan) -> None:
    wanted = plan.allocator
    if wanted is None and plan.device is None and "GMLAKE" not in child:
        wanted = "gmlake"
    if wanted == "gmlake":
        if child.get("GMLAKE") != "strict":
            child["GMLAKE"] = "1"
    elif wanted is not None:
        child.pop("GMLAKE", None)
    if wanted in ("torch", "expandable"):
        given = [(name, child.pop(name)) for name in _SETTINGS if name in child]
        variable, text = given[0] if given else (_SETTINGS[0], "")
        kept = [part for part in text.split(",") if part and not any(name in part for name in _ALLOCATING)]
        if wanted == "expandable":  # of the second name some versions take no expandable segments, older ones nothing
            child[_SETTINGS[0]] = ",".join([*kept, "expandable_segments:True"])
        elif kept:
            child[variable] = ",".join(kept)


def asks_for_gmlake(plan: Plan, base: Mapping[str, str]) -> bool:
    """Whether the child is to be served by GMLake."""
    child = dict(base)
    _choose_allocator(child, plan)
    return child.get("GMLAKE", "").strip().lower() not in OFF


def device_text(plan: Plan, device: Device) -> str:
    """GMLAKE_DEVICE: what the native library reads."""
    major, minor = device.capability
    entries: dict[str, object] = {
        "name": device.name,
        "memory": device.memory,
        "capability": f"{major}.{minor}",
        "multiprocessors": device.multiprocessors,
        "bus_width": device.bus_width,
        "l2_bytes": device.l2_bytes,
        "clock_khz": device.clock_mhz * 1000,
        "memory_clock_khz": device.memory_clock_mhz * 1000,
        "count": plan.gpus,
        "session": plan.session,
    }
    if not device.peers:
        entries["peers"] = 0
    if plan.kernel_us:
        entries["kernel_us"] = plan.kernel_us
    for name, wanted in (("compute", plan.compute), ("hazards", plan.hazards), ("leaks", plan.leaks)):
        if wanted:
            entries[name] = 1
    if plan.world_size is not None:
        entries |= {"world_size": plan.world_size, "rank": plan.rank}
    if ";" in str(plan.session):
        raise UserError(f"the folder for temporary files, {plan.session.parent}, has a ';' in its name; set TMPDIR")
    return ";".join(f"{name}={value}" for name, value in entries.items())


def torch_libraries() -> Path:
    """The folder of the libraries of the torch in this environment."""
    folder = find_torch()
    if folder is None:
        raise UserError("PyTorch is not installed beside gmlake; install its CUDA build here: pip install torch")
    return folder


def native_library() -> Path:
    """Our libgmlake_device.so."""
    path = Path(gmlake.__file__).parent / "libgmlake_device.so"
    if not path.exists():
        raise UserError(f"this gmlake was built without the emulated device: {path} is missing; install gmlake again")
    return path


def _preloaded() -> list[Path]:
    return [native_library(), stand_ins(torch_libraries())]


def _compilers(folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """What torch.compile and PyTorch's own compiler need, and keep apart from what they make for real devices.

    A folder that the user has chosen gets one for us within.
    """
    kept = folder.parent / "compiled"
    caches = {
        name: str(Path(base[name]) / "gmlake" if base.get(name) else kept / default) for name, default in CACHES.items()
    }
    return {"TRITON_LIBCUDA_PATH": str(folder / LINKABLE), **caches, "USE_PYTORCH_KERNEL_CACHE": "0"}


def _preload(ours: list[Path], before: str) -> str:
    for path in ours:
        if any(letter in str(path) for letter in " :"):
            raise UserError(f"{path} cannot be preloaded, because its name has a space or a colon; move it elsewhere")
    return ":".join([*map(str, ours), *before.replace(":", " ").split()])


def _settings(plan: Plan) -> dict[str, object]:
    """What the part that runs in the child reads (gmlake.emulator.inside.settings)."""
    solo = None if plan.world_size is None else {"world_size": plan.world_size, "rank": plan.rank}
    return {
        "device": None if plan.device is None else plan.device.key,
        "compute": plan.compute,
        "solo": solo,
        "record": None if plan.record is None else str(plan.record),
        "stacks": plan.stacks,
        "session": str(plan.session),
    }


def _rank_variables(world_size: int, rank: int, gpus: int) -> dict[str, str]:
    """What torchrun would tell the process, and one thing more.

    A thread of PyTorch asks the store every second whether another rank wants a dump. Ours is in Python, and where a
    program leaves its process group behind, the thread may ask when Python has gone already: a crash at the end.
    """
    return {
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % gpus),
        "LOCAL_WORLD_SIZE": str(min(gpus, world_size)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": _PORT,
    }
