"""What PyTorch's memory snapshots show of GMLake: segments, blocks and events, in plain types that the viewer reads.

Physical memory is shown once. Chunks that serve a stitched block are shown there, as a segment of its own, and left
out of the segment that is their home; a stitched block that is not in use is only addresses and not shown. Segments
are runs of mapped memory, as with PyTorch's expandable segments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

from gmlake import _core
from gmlake.torch import bridge, history

_ORDINARY = (0, 0)
_pytorch_snapshot: Any = getattr(torch._C, "_cuda_memorySnapshot", None)  # the shim is not in its place yet


def take(request: tuple[Any, ...] | None = None) -> dict[str, Any]:
    """Stand in for torch._C._cuda_memorySnapshot: of all pools or one, with the events or without."""
    pool = (request[0], request[1]) if request else _ORDINARY
    with_events = request[2] if request and len(request) > 2 else True
    devices = _core.used_devices()
    with history.hold():
        journals = {device: _core.process_allocator(device).journal() if with_events else [] for device in devices}
        blocks = dict(_core.recorded_contexts())
        numbers = {*blocks.values(), *(entry.context for journal in journals.values() for entry in journal)} - {0}
        frames = history.frames_of(numbers) if numbers else {}
    segments = [
        segment
        for device in devices
        for segment in _segments(device, {at: frames.get(number, []) for at, number in blocks.items()})
        if pool in (_ORDINARY, segment["segment_pool_id"])
    ]
    _core.note_snapshots()
    return {
        "segments": sorted(segments, key=lambda segment: int(segment["address"])),
        "device_traces": [
            list(_events(journals.get(device, []), frames)) for device in range(torch.cuda.device_count())
        ],
        "allocator_settings": _settings(),
        "external_annotations": [],
        "host_segments": [],
        "host_traces": [],
        **(_others() if request is None and bridge.is_active() else {}),
    }


def _others() -> dict[str, Any]:
    """What is not GMLake's: annotations, and pinned memory."""
    found = _pytorch_snapshot(None)
    names = "external_annotations", "host_segments", "host_traces"
    return {name: found[name] for name in names if name in found}  # older versions know fewer


def _segments(device: int, frames: dict[int, history.Frames]) -> Iterator[dict[str, Any]]:
    for segment in _core.process_allocator(device).segments():
        run: list[_core.BlockInfo] = []
        for block in [*segment.blocks, None]:
            if block is not None and block.state != "lent":
                run.append(block)
            elif run:
                if not (segment.stitched and all(part.state == "inactive" for part in run)):
                    yield _segment(device, segment, run, frames)
                run = []


def _segment(
    device: int, segment: _core.SegmentInfo, run: list[_core.BlockInfo], frames: dict[int, history.Frames]
) -> dict[str, Any]:
    allocated = sum(block.size for block in run if block.state == "active_allocated")
    return {
        "device": device,
        "address": run[0].address,
        "total_size": sum(block.size for block in run),
        "allocated_size": allocated,
        "active_size": sum(block.size for block in run if block.state != "inactive"),
        "requested_size": sum(block.requested for block in run),
        "stream": segment.stream,
        "segment_type": segment.kind,
        "segment_pool_id": segment.pool,
        "is_expandable": segment.expandable,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": block.state,
                "frames": frames.get(block.address, []) if block.state != "inactive" else [],
            }
            for block in run
        ],
    }


def _events(journal: list[_core.JournalEntry], frames: dict[int, history.Frames]) -> Iterator[dict[str, Any]]:
    """The journal in PyTorch's words. Of many streams a free may name another one; its allocation knows."""
    streams: dict[int, int] = {}
    for entry in journal:
        action = history.ACTIONS.get(entry.action)
        address, size, stream = entry.address, entry.size, entry.stream
        if action == "alloc":
            streams[address] = stream
        elif action in ("free_requested", "free_completed", "annotate"):
            stream = streams.get(address, stream)
        if action is None:
            continue
        event: dict[str, Any] = {
            "action": action,
            "device_free" if action == "oom" else "addr": address,
            "size": size,
            "stream": stream,
            "time_us": entry.time_us,
            "compile_context": "N/A",
            "user_metadata": "stitched" if entry.action == "stitch" else entry.remark,
            "pool_id": entry.pool,
        }
        if entry.context in frames:
            event["frames"] = frames[entry.context]
        yield event


def _settings() -> dict[str, Any]:
    """What PyTorch lists; its own settings mean nothing to us, except for how they were written."""
    written = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", os.environ.get("PYTORCH_ALLOC_CONF", ""))
    return {
        "PYTORCH_CUDA_ALLOC_CONF": written,
        "max_split_size": -1,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": True,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "graph_capture_record_stream_reuse": False,
        "max_round_threshold": -1,
        "max_cached_size": -1,
        "roundup_power2_divisions": {str(1 << power): 0 for power in range(16)},
    }
