"""PyTorch's memory snapshot (`torch.cuda.memory._dump_snapshot`): as pickle, or the same keys as JSON.

This file decodes it and finds the device and its history; `snapshot_history` turns that into a trace.
Snapshots hold no record_stream, no empty_cache and no iterations, unless a profiler's steps are among the
annotations.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gmlake.trace.errors import TraceError
from gmlake.trace.formats import plain_pickle
from gmlake.trace.formats.snapshot_history import read_device
from gmlake.trace.trace import Trace

_NO_HISTORY = "has no history of events: record one with torch.cuda.memory._record_memory_history() before the work"


def sniff(data: bytes) -> bool:
    """Is it a pickle, or text that begins as JSON does?"""
    return plain_pickle.sniff(data) or data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(data: bytes, name: str, device: int | None) -> Trace:
    """The trace of one device of a snapshot."""
    snapshot = decode(data)
    taken = choose_device(snapshot, device)
    events = snapshot["device_traces"]
    segments = [segment for segment in _list(snapshot, "segments") if _on_device(segment, taken)]
    trace = read_device(snapshot, events[taken], segments, taken, name)
    others = tuple(number for number, rest in enumerate(events) if rest and number != taken)
    return trace if device is not None else replace(trace, other_devices=others)


def decode(data: bytes) -> dict[str, Any]:
    """What the file holds: a snapshot by its keys, of which nothing more is known."""
    snapshot = plain_pickle.load(data) if plain_pickle.sniff(data) else _load_json(data)
    if isinstance(snapshot, list) and all(isinstance(segment, dict) for segment in snapshot):
        raise TraceError(_NO_HISTORY)
    if not isinstance(snapshot, dict) or not ("segments" in snapshot or "device_traces" in snapshot):
        raise TraceError("is not a memory snapshot, expected the keys 'segments' and 'device_traces'")
    return snapshot


def choose_device(snapshot: dict[str, Any], device: int | None) -> int:
    """The device, or the one with most events; it has a history."""
    traces = _list(snapshot, "device_traces")
    if not all(isinstance(trace, list) for trace in traces):
        raise TraceError("has 'device_traces' that are not lists of events")
    if device is None:
        device = max(range(len(traces)), key=lambda number: len(traces[number]), default=0)
    elif not 0 <= device < len(traces):
        raise TraceError(f"has no device {device}, expected 0 to {len(traces) - 1}")
    if not traces or not traces[device]:
        raise TraceError(_NO_HISTORY)
    return device


def _list(snapshot: dict[Any, Any], key: str) -> list[Any]:
    value = snapshot.get(key, [])
    if not isinstance(value, list):
        raise TraceError(f"is not a memory snapshot: {key!r} is not a list")
    return value


def _on_device(segment: Any, device: int) -> bool:
    if not isinstance(segment, dict):
        raise TraceError("has a segment that is not a dict")
    return bool(segment.get("device", 0) == device)


def _load_json(data: bytes) -> Any:
    if data.count(b"{") + data.count(b"[") > len(data) // 4 + 64:
        raise TraceError("is JSON of almost nothing but empty lists and objects, expected a memory snapshot")
    try:
        return json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else "nested or encoded beyond reason"
        raise TraceError(f"is not intact JSON ({detail})") from error
