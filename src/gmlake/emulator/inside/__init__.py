"""What runs inside the child, brought in by `import torch` (gmlake.autoload): one module per concern.

Everything starts once per process. A data loader's forked worker has these hooks too, but no device of its own, and
so nothing to tell (see `report`).
"""

from __future__ import annotations

import importlib
from types import ModuleType

from gmlake.emulator.inside import native
from gmlake.emulator.inside.settings import Settings


def start(text: str) -> None:
    """Start the parts that the settings ask for; called at the end of `import torch`."""
    settings = Settings.parse(text)
    # Imported by name, because each is only there to be started, and only if it is asked for.
    _part("report").start(settings)
    if settings.record is not None:
        _part("recording").start(settings)
    if settings.device is not None:
        if not settings.compute:
            _part("values").start(settings)
        if settings.compute or native.configured("hazards") == "1":
            _part("compute").start(settings)
        if settings.solo is not None:
            _part("ranks").start(settings.solo.world_size, settings.solo.rank)
        else:
            _part("ranks").start_among_processes(settings.compute)


def _part(name: str) -> ModuleType:
    return importlib.import_module(f"gmlake.emulator.inside.{name}")
