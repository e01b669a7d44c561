"""Seeing GMLake work: gmlake.stats, gmlake.summary, and the lines of GMLAKE_LOG=info."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from gmlake import __version__, _core
from gmlake.errors import UserError

if TYPE_CHECKING:
    import torch

Device: TypeAlias = "torch.device | str | int | None"


def stats(device: Device = None) -> dict[str, Any]:
    """GMLake's figures for a device, nested as torch.cuda.memory_stats_as_nested_dict; its own are under 'gmlake'.

    The device is named as for PyTorch; None is the current one. `utilisation` is the share of peak reserved memory that
    was in use at the peak; `driver_calls` has how often each call of the driver was made and how many microseconds it
    took. Empty if the device was not used.
    """
    number = index_of(device)
    return _figures(number) if number in _core.used_devices() else {}


def index_of(device: Device) -> int:
    """The number of a device as PyTorch understands its name; a question does not start CUDA."""
    if device is None and "torch" not in sys.modules:
        return 0
    import torch
    from torch.cuda._utils import _get_device_index

    named = torch.device(device) if isinstance(device, str) else device
    current = named is None or named == torch.device("cuda")
    number = 0 if current and not torch.cuda.is_initialized() else int(_get_device_index(named, optional=True))
    if not current and number not in _core.used_devices() and not 0 <= number < torch.cuda.device_count():
        raise UserError(f"there is no device {number}: PyTorch sees {torch.cuda.device_count()}, counted from 0")
    return number


def _figures(device: int) -> dict[str, Any]:
    found = _core.process_allocator(device).statistics()
    own = found.setdefault("gmlake", {})
    reserved = found["reserved_bytes"]["all"]["peak"]
    own["utilisation"] = found["active_bytes"]["all"]["peak"] / reserved if reserved else 1.0
    own["driver_calls"] = _core.process_driver(device).counts()
    return found


def summary(device: Device = None) -> str:
    """A page about what GMLake did on a device (None: on each that was used), for people.

    It says how much was saved if the process began with gmlake.enable(compare=True) or GMLAKE_COMPARE=1.
    """
    used = _core.used_devices() if device is None else [index_of(device)]
    pages = [_page(number) for number in used if number in _core.used_devices()]
    return "\n\n".join(pages) or "GMLake has not served any allocation on this device."


def _page(device: int) -> str:
    found = _figures(device)
    own = found["gmlake"]
    peaks = {kind: found[f"{kind}_bytes"]["all"]["peak"] for kind in ("requested", "active", "reserved")}
    calls = sum(count for count, _ in own["driver_calls"].values())
    milliseconds = sum(time for _, time in own["driver_calls"].values()) / 1000
    lines = [
        f"GMLake {__version__} on GPU {device}",
        "",
        f"  {'peak requested':<18}{_core.format_bytes(peaks['requested']):>12}   what the program asked for",
        f"  {'peak active':<18}{_core.format_bytes(peaks['active']):>12}   rounded, with what streams still used",
        f"  {'peak reserved':<18}{_core.format_bytes(peaks['reserved']):>12}   taken from the device; "
        f"{own['utilisation']:.1%} of it in use at the peak",
        *_saving(device, peaks["reserved"]),
        "",
        f"  {own.get('stitches', 0):,} times scattered free memory was stitched together, "
        f"{own.get('sblock_hits', 0):,} times a stitched block was there already.",
        f"  {calls:,} calls of the driver took {milliseconds:,.1f} ms in all; "
        f"{found['num_alloc_retries']:,} requests had to wait for memory, {found['num_ooms']:,} found none.",
    ]
    return "\n".join(lines)


def _saving(device: int, reserved: int) -> list[str]:
    rival = _core.rival_statistics(device)
    if rival is None:
        return ["", "  What would PyTorch's own allocator have reserved? Start with GMLAKE_COMPARE=1 to see it here."]
    theirs = rival["reserved_bytes"]["all"]["peak"]
    share = 1 - reserved / theirs if theirs else 0.0
    lines = [
        f"  {'PyTorch alone':<18}{_core.format_bytes(theirs):>12}   what PyTorch's own allocator would have reserved",
        "",
        f"  Saved: {_core.format_bytes(max(0, theirs - reserved))} ({share:.1%}).",
    ]
    if rival["num_ooms"]:
        lines.append(f"  PyTorch's own allocator would have run out of memory {rival['num_ooms']:,} times.")
    return lines


def start_log() -> None:
    """One line now and one per device at the end, if GMLAKE_LOG asks for it."""
    from gmlake.torch import shim

    wanted = os.environ.get("GMLAKE_LOG", "").lower()
    if wanted in ("info", "debug"):
        import torch

        from gmlake.torch import bridge

        way = "over the bridge" if bridge.is_active() else f"without the bridge: {bridge.why_not()}"
        _say(f"version {__version__} serves the CUDA memory of torch {torch.__version__}, {way}")
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
    found = _figures(device)
    own = found["gmlake"]
    active, reserved = (_core.format_bytes(found[f"{kind}_bytes"]["all"]["peak"]) for kind in ("active", "reserved"))
    return (
        f"GPU {device}: peak active {active}, peak reserved {reserved} ({own['utilisation']:.1%} in use), "
        f"{own.get('stitches', 0)} stitches, {own.get('sblock_hits', 0)} reused, {found['num_ooms']} out of memory"
    )


def _say(text: str) -> None:
    rank = os.environ.get("RANK", "")
    print(f"gmlake{f' (rank {rank})' if rank else ''}: {text}", file=sys.stderr)
