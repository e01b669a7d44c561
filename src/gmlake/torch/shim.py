"""Makes torch.cuda.memory and torch.accelerator.memory answer from GMLake.

Those modules are Python and reach PyTorch's own allocator through a handful of attributes of torch._C, which they look
up with every call. Each of them that would fail for another allocator, or answer from the one that is not used, is
replaced here: SEAMS is the whole list. `lacking` says what the running torch does not have, `install` and `remove`
are exact opposites. Nothing else of PyTorch is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gmlake import _core
from gmlake.torch import history, snapshot

_BY_POOL = "reserved_bytes_by_private_pools"

_originals: dict[str, Any] = {}
_observers: list[Callable[[int, int, int, int], object]] = []


def install() -> None:
    """Replace the attributes."""
    if _originals:
        return
    for name, (replacement, _) in SEAMS.items():
        if hasattr(torch._C, name):
            _originals[name] = getattr(torch._C, name)
            setattr(torch._C, name, replacement)


def remove() -> None:
    """Put the attributes back as they were."""
    for name, original in _originals.items():
        setattr(torch._C, name, original)
    _originals.clear()


def lacking() -> list[str]:
    """Attributes that this file must replace and the running torch does not have."""
    return [f"torch._C.{name}" for name, (_, needed) in SEAMS.items() if needed and not hasattr(torch._C, name)]


def _allocator(device: int) -> _core.Allocator | None:
    """The allocator of a device, if the device is in use; a question does not make it so."""
    if not 0 <= device < torch.cuda.device_count():
        raise RuntimeError(f"Invalid device argument {device}: did you call init?")
    return _core.process_allocator(device) if device in _core.used_devices() else None


def statistics(device: int) -> dict[str, Any]:
    """What torch.cuda.memory_stats_as_nested_dict shows: PyTorch's figures and no others."""
    allocator = _allocator(device)
    if allocator is None:
        found = _core.make_allocator("gmlake", _core.SimulatedDriver()).statistics()
    else:
        found = allocator.statistics()
    found.pop("gmlake", None)
    # Its keys are ids of pools, and a torch that does not promise the figure cannot write them out.
    if _BY_POOL not in (torch.cuda.memory_stats.__doc__ or ""):
        found.pop(_BY_POOL, None)
    return found


def _common_statistics(device: int) -> dict[str, Any]:
    """What torch.accelerator.memory_stats shows: the figures that all kinds of devices have."""
    found = statistics(device)
    found.pop("num_oom_rejections", None)
    return found


def _reset_peaks(device: int) -> None:
    if (allocator := _allocator(device)) is not None:
        allocator.reset_peaks()
        _core.reset_rival_peaks(device)


def _reset_accumulated(device: int) -> None:
    if (allocator := _allocator(device)) is not None:
        allocator.reset_accumulated()


def _empty_cache() -> None:
    torch._C._cuda_emptyCache()  # of all devices, and of what watches them


def _memory_fraction(device: int) -> float:
    _allocator(device)
    return _core.process_fraction(device)


def _attach_observer(observer: Callable[[int, int, int, int], object]) -> None:
    _observers.append(observer)
    _core.set_out_of_memory_observer(_tell_observers)


def _tell_observers(device: int, asked: int, allowed: int, free: int) -> None:
    for observer in _observers:
        observer(device, asked, allowed, free)


def release_callbacks() -> None:
    """At the end of the process: native code must not call into an interpreter that is gone."""
    _core.set_out_of_memory_observer(None)
    _core.set_recorder(None)


# Attribute of torch._C -> what takes its place, and whether a torch without it is unsupported.
SEAMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "_cuda_memoryStats": (statistics, True),
    "_cuda_resetPeakMemoryStats": (_reset_peaks, True),
    "_cuda_resetAccumulatedMemoryStats": (_reset_accumulated, True),
    "_cuda_memorySnapshot": (snapshot.take, True),
    "_cuda_record_memory_history": (history.record, True),
    "_cuda_record_memory_history_legacy": (history.record_legacy, False),
    "_cuda_isHistoryEnabled": (history.is_recording, False),
    "_cuda_allocationTraceback": (history.traceback_of, False),
    "_cuda_memoryMetadataSupported": (lambda: True, False),
    "_cuda_setMemoryMetadata": (_core.set_remark, False),
    "_cuda_getMemoryMetadata": (_core.remark, False),
    "_cuda_annotateMemory": (_core.annotate, False),
    "_cuda_getMemoryFraction": (_memory_fraction, False),
    "_cuda_getAllocatorBackend": (lambda: "gmlake", True),
    "_cuda_attach_out_of_memory_observer": (_attach_observer, True),
    "_accelerator_isAllocatorInitialized": (lambda: bool(torch.cuda.is_initialized()), False),
    "_accelerator_emptyCache": (_empty_cache, False),
    "_accelerator_getDeviceStats": (_common_statistics, False),
    "_accelerator_resetPeakStats": (_reset_peaks, False),
    "_accelerator_resetAccumulatedStats": (_reset_accumulated, False),
}
