"""Seeing GMLake work: gmlake.stats, gmlake.summary, and the lines of GMLAKE_LOG=info."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from gmlake import __version__, _core


def stats(device: int = 0) -> dict[str, Any]:
    """GMLake's figures for a device, nested as torch.cuda.memory_stats_as_nested_dict; its own are under 'gmlake'.

    `utilisation` is the share of peak reserved memory that was in use at the peak; `driver_calls` has how often each
    call of the driver was made and how many microseconds it took. Empty if the device was not used.
    """
    if device not in _core.used_devices():
        return {}
    found = _core.process_allocator(device).statistics()
    own = found.setdefault("gmlake", {})
    reserved = found["reserved_bytes"]["all"]["peak"]
    own["utilisation"] = found["active_bytes"]["all"]["peak"] / reserved if reserved else 1.0
    own["driver_calls"] = _core.process_driver(device).counts()
    return found


def start_log() -> None:
    """One line now and one per device at the end, if GMLAKE_LOG asks for it."""
    from gmlake.torch import shim

    wanted = os.environ.get("GMLAKE_LOG", "").lower()
    if wanted in ("info", "debug"):
        import torch

        _say(f"version {__version__} serves the CUDA memory of torch {torch.__version__}")
        atexit.register(_say_at_exit, os.getpid())
    elif wanted not in ("", "0", "off", "warning", "error"):
        _say(f"GMLAKE_LOG={wanted} means nothing; expected info")
    atexit.register(shim.release_callbacks)


def _say_at_exit(process: int) -> None:
    if process != os.getpid():
        return
    for device in _core.used_devices():
        _say(one_line(device))


def one_line(device: int) -> str:
    """A device's figures in one line."""
    found = stats(device)
    own = found["gmlake"]
    active, reserved = (_core.format_bytes(found[f"{kind}_bytes"]["all"]["peak"]) for kind in ("active", "reserved"))
    return (
        f"GPU {device}: peak active {active}, peak reserved {reserved} ({own['utilisation']:.1%} in use), "
        f"{own.get('stitches', 0)} stitches, {own.get('sblock_hits', 0)} reused, {found['num_ooms']} out of memory"
    )


def _say(text: str) -> None:
    rank = os.environ.get("RANK", "")
    print(f"gmlake{f' (rank {rank})' if rank else ''}: {text}", file=sys.stderr)
