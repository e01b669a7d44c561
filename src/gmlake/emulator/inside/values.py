"""Where the program read values back from the device: without shadow compute they are not real, and the report says so.

The device tells of every copy to the host. What counts is the innermost line outside PyTorch, which called `.item()`,
`.cpu()`, `bool()` or printed a tensor. Copies that PyTorch makes to put data away and bring it back (activations kept
on the host, files being saved) read nothing and are left out, as far as the way to them shows it.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Literal

import torch

from gmlake.emulator.inside import native, report

_TORCH = str(Path(torch.__file__).parent) + "/"
_STORING = tuple(
    _TORCH + part
    for part in ("autograd/graph.py", "serialization.py", "distributed/checkpoint/", "distributed/fsdp/", "storage.py")
)
_GMLAKE = str(Path(__file__).parents[2]) + "/"  # kernels of ours stand between the program and the device
_MANY = 5000  # reads at one place: it may be a loop that waits for a value
_FARTHEST = 64  # frames: deeper calls within PyTorch count as its own

Place = tuple[CodeType, int]

_reads: dict[Place | None, list[int]] = {}  # times and bytes


def start(settings: object) -> None:
    """Watch the device, and tell what was found at the end."""
    native.on_read(_read)
    report.add("reads", places)


def places() -> list[dict[str, object]]:
    """Every line that read values: where it is, what it says, how often, how many bytes. The most frequent first."""
    found = []
    for place, (times, size) in sorted(_reads.items(), key=lambda item: -item[1][0]):
        if place is None:
            found.append({"place": "a thread of PyTorch's own", "source": "", "times": times, "bytes": size})
            continue
        code, line = place
        source = linecache.getline(code.co_filename, line).strip()
        found.append({"place": f"{_shown(code.co_filename)}:{line}", "source": source, "times": times, "bytes": size})
    return found


def _shown(name: str) -> str:
    """A file as a person would name it: from the working folder, or from the folder of packages."""
    _, packages, rest = name.rpartition("/site-packages/")
    if packages:
        return rest
    here = str(Path.cwd()) + "/"
    return name.removeprefix(here)


def _read(_source: int, size: int) -> None:
    # Called by the device, on any thread, once for every copy: it must be quick and must not raise.
    try:
        place = _place(sys._getframe(1))
        if place is not False:
            counts = _reads.get(place)
            if counts is None:
                counts = _reads.setdefault(place, [0, 0])
            counts[0] += 1
            counts[1] += size
            if counts[0] == _MANY and place is not None:
                _tell(place)
    except BaseException:
        return


def _tell(place: Place) -> None:
    where = f"{_shown(place[0].co_filename)}:{place[1]}"
    sys.stderr.write(
        f"gmlake: {where} has read {_MANY:,} values that are not real; if this loop does not end, use --compute\n"
    )


def _place(frame: FrameType | None) -> Place | Literal[False] | None:
    """The innermost line outside PyTorch and ourselves; None if there is none; False if PyTorch only puts data away."""
    for _ in range(_FARTHEST):
        if frame is None:
            return None
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH, _GMLAKE)):
            return frame.f_code, frame.f_lineno
        if name.startswith(_STORING):
            return False
        frame = frame.f_back
    return None
