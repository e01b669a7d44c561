"""A trace as a PyTorch memory snapshot: a pickle of plain types, which the public memory viewer opens, or JSON.

Events get the addresses of `gmlake.trace.placement`, a segment per stream and pool covers them, and
`segments` is the state after the last event. What was live at the beginning has no event of its own, as in a
recorded snapshot: it is in `segments`, or shows by its free. Iteration marks become annotations.
record_stream, the release of a pool and trims have no place in the format.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np

from gmlake.trace.placement import Line, place, rounded
from gmlake.trace.trace import Kind, Trace

CONVERTED = "converted_by_gmlake"  # the addresses are ours: they tell nothing about PyTorch's allocator
_UNKNOWN = "N/A"


def write_pickle(trace: Trace) -> bytes:
    """The snapshot as a pickle."""
    return pickle.dumps(to_snapshot(trace), protocol=4)  # the viewer knows the opcodes up to this one


def write_json(trace: Trace) -> bytes:
    """The snapshot as JSON."""
    return json.dumps(to_snapshot(trace), separators=(",", ":")).encode()


def to_snapshot(trace: Trace) -> dict[str, Any]:
    """The trace as the object that a snapshot file holds."""
    addresses, line_of, lines = place(trace)
    stacks = _stacks(trace)
    times = (np.arange(len(trace)) if trace.time_us is None else trace.time_us).tolist()
    address, sizes = addresses.tolist(), trace.size[trace.kind == Kind.ALLOCATE].tolist()
    sites = [-1] * len(sizes) if trace.site is None else trace.site[trace.kind == Kind.ALLOCATE].tolist()
    pool_ids = [trace.pools[line.pool - 1] if line.pool else (0, 0) for line in lines]
    history: list[dict[str, Any]] = []
    live: dict[int, None] = {}

    def record(action: str, number: int, time: int) -> None:
        line = line_of[number]
        event = {
            "action": action,
            "addr": address[number],
            "size": sizes[number],
            "stream": trace.streams[lines[line].stream],
            "time_us": time,
            "compile_context": _UNKNOWN,
            "user_metadata": "",
            "pool_id": pool_ids[line],
        }
        if action == "alloc" and sites[number] >= 0:
            event["frames"] = stacks[sites[number]]
        history.append(event)

    for index, (kind, number) in enumerate(zip(trace.kind.tolist(), trace.id.tolist(), strict=True)):
        if kind == Kind.ALLOCATE:
            live[number] = None
            if index >= trace.initial:
                record("alloc", number, times[index])
        elif kind == Kind.FREE:
            del live[number]
            record("free_requested", number, times[index])
            record("free_completed", number, times[index])
    by_line: list[list[int]] = [[] for _ in lines]
    for number in live:
        by_line[line_of[number]].append(number)
    segments = []
    for index, line in enumerate(lines):
        blocks = _blocks(line, sorted((address[n], sizes[n], sites[n]) for n in by_line[index]), stacks)
        segments.append(_segment(trace, line, pool_ids[index], blocks))
    return {
        "segments": segments,
        "device_traces": [[] for _ in range(trace.device)] + [history],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": _annotations(trace, times),
        CONVERTED: True,
    }


def _annotations(trace: Trace, times: list[int]) -> list[dict[str, Any]]:
    """The iteration marks, as steps that end where they begin."""
    return [
        {"device": trace.device, "time_us": times[index], "name": f"iteration {number}", "stage": stage}
        for index, number in zip(trace.marks.tolist(), trace.id[trace.marks].tolist(), strict=True)
        for stage in ("START", "END")
    ]


def _stacks(trace: Trace) -> list[list[dict[str, Any]]]:
    if trace.call_sites is None:
        return []
    frames = [frame._asdict() for frame in trace.call_sites.frames]
    return [[frames[index] for index in stack] for stack in trace.call_sites.stacks]


def _segment(trace: Trace, line: Line, pool_id: tuple[int, int], blocks: list[dict[str, Any]]) -> dict[str, Any]:
    active = [block for block in blocks if block["state"] != "inactive"]
    allocated = sum(block["size"] for block in active)
    return {
        "device": trace.device,
        "address": line.address,
        "total_size": line.size,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(block["requested_size"] for block in active),
        "stream": trace.streams[line.stream],
        "segment_type": "large",
        "segment_pool_id": pool_id,
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _blocks(line: Line, live: list[tuple[int, int, int]], stacks: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The live blocks of a line in address order, with what lies between them."""
    blocks: list[dict[str, Any]] = []
    position = line.address

    def add(size: int, requested: int, state: str, frames: list[dict[str, Any]]) -> None:
        nonlocal position
        blocks.append(
            {"address": position, "size": size, "requested_size": requested, "state": state, "frames": frames}
        )
        position += size

    for start, requested, site in live:
        if start > position:
            add(start - position, 0, "inactive", [])
        add(rounded(requested), requested, "active_allocated", stacks[site] if site >= 0 else [])
    if position < line.address + line.size:
        add(line.address + line.size - position, 0, "inactive", [])
    return blocks
