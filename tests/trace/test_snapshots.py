"""PyTorch snapshots: the history as a trace, what was live before it, and snapshots that we write."""

from __future__ import annotations

import json
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmlake.replay.initial_state import initial_segments
from gmlake.trace import Kind, Trace, TraceError, read_snapshot, read_trace, write_trace
from gmlake.trace.formats import snapshot, snapshot_write

Event = dict[str, Any]
MakeTrace = Callable[..., Trace]
MIB = 1 << 20
BASE = 0x7F00_0000_0000

# What the public memory viewer can unpickle.
VIEWER = {
    "PROTO",
    "FRAME",
    "MEMOIZE",
    "BINPUT",
    "LONG_BINPUT",
    "BINGET",
    "LONG_BINGET",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "EMPTY_LIST",
    "EMPTY_DICT",
    "EMPTY_TUPLE",
    "APPEND",
    "APPENDS",
    "SETITEM",
    "SETITEMS",
    "MARK",
    "LIST",
    "DICT",
    "TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
    "BYTEARRAY8",
    "STOP",
}


def event(action: str, address: int, size: int = 512, **more: Any) -> Event:
    return {"action": action, "addr": address, "size": size, "stream": 0, **more}


def freed(address: int, size: int = 512, **more: Any) -> list[Event]:
    return [event("free_requested", address, size, **more), event("free_completed", address, size, **more)]


def block(size: int, requested: int, state: str = "active_allocated", **more: Any) -> Event:
    return {"size": size, "requested_size": requested, "state": state, **more}


def segment(address: int, *blocks: Event, **more: Any) -> Event:
    return {"device": 0, "address": address, "stream": 0, "blocks": list(blocks), **more}


def read(events: list[Event], segments: list[Event] | None = None, **more: Any) -> Trace:
    data = json.dumps({"segments": segments or [], "device_traces": [events], **more}).encode()
    return snapshot.read(data, "t", None)


def rows(trace: Trace) -> list[tuple[int, int, int]]:
    return list(zip(trace.kind.tolist(), trace.id.tolist(), trace.size.tolist(), strict=True))


A, F = int(Kind.ALLOCATE), int(Kind.FREE)


def test_addresses_are_used_again() -> None:
    trace = read([event("alloc", 1, 10), *freed(1, 10), event("alloc", 1, 20), *freed(1, 20)])
    assert rows(trace) == [(A, 0, 10), (F, 0, 0), (A, 1, 20), (F, 1, 0)]
    assert trace.initial == 0
    assert trace.source == "snapshot"


def test_a_free_happens_when_it_is_requested() -> None:
    events = [
        event("alloc", 1, 10),
        event("free_requested", 1, 10),
        event("alloc", 2, 20),
        event("free_completed", 1, 10),
        event("alloc", 1, 30),
    ]
    assert rows(read(events)) == [(A, 0, 10), (F, 0, 0), (A, 1, 20), (A, 2, 30)]


def test_a_completed_free_alone_is_a_free() -> None:
    assert rows(read([event("alloc", 1, 10), event("free_completed", 1, 10)])) == [(A, 0, 10), (F, 0, 0)]


def test_other_events_are_passed_over() -> None:
    others = [
        event("segment_alloc", 1, 2 * MIB),
        event("segment_map", 9, 2 * MIB),
        event("snapshot", 0, 99),
        {"action": "oom", "device_free": 5, "size": 1 << 40, "stream": 0},
        event("annotate", 1, 0, user_metadata="x"),
        event("something_new", 77),
    ]
    assert rows(read([*others, event("alloc", 1, 10), *others])) == [(A, 0, 10)]


def test_what_was_live_before_is_rebuilt_in_address_order() -> None:
    segments = [
        segment(BASE + 4096, block(512, 500), block(1024, 0, "inactive"), block(512, 300)),
        segment(BASE, block(512, 7, "active_pending_free"), block(512, 11), stream=5),
    ]
    events = [
        *freed(BASE + 9000, 77),  # never seen at the end: known by its free alone
        event("free_completed", BASE + 100_000, 88),  # its request came before the history
        event("alloc", BASE + 4096 + 1536, 300),  # in the history, so not before it
        event("alloc", BASE + 9000, 5),
    ]
    trace = read(events, segments)
    assert trace.initial == 5
    assert rows(trace)[:5] == [(A, 0, 7), (A, 1, 11), (A, 2, 500), (A, 3, 77), (A, 4, 88)]
    assert trace.streams == (0, 5)
    assert trace.stream[:5].tolist() == [1, 1, 0, 0, 0]
    assert rows(trace)[5:] == [(F, 3, 0), (F, 4, 0), (A, 5, 300), (A, 6, 5)]


def test_blocks_of_older_versions() -> None:
    """No addresses in blocks; the requested size in the block's history, or nowhere."""
    old = {
        "size": 1024,
        "state": "active_allocated",
        "history": [{"addr": 1, "real_size": 900, "frames": []}],
    }
    older = {"size": 512, "state": "active_allocated"}
    trace = read([event("alloc", 1, 10)], [segment(BASE, old, older)])
    assert rows(trace)[:2] == [(A, 0, 900), (A, 1, 512)]
    assert trace.time_us is None


def test_the_busiest_device_is_the_default() -> None:
    traces = [[event("alloc", 1, 10)], [event("alloc", 1, 20), event("alloc", 2, 30)], []]
    segments = [segment(BASE, block(512, 1), device=0), segment(BASE, block(512, 2), device=1)]
    data = json.dumps({"segments": segments, "device_traces": traces}).encode()
    assert snapshot.read(data, "t", None).size.tolist() == [2, 20, 30]
    assert snapshot.read(data, "t", None).device == 1
    assert snapshot.read(data, "t", 0).size.tolist() == [1, 10]
    with pytest.raises(TraceError, match="has no device 3, expected 0 to 2"):
        snapshot.read(data, "t", 3)
    with pytest.raises(TraceError, match="has no history"):
        snapshot.read(data, "t", 2)


@pytest.mark.parametrize("value", [[segment(BASE, block(512, 1))], {"segments": [segment(BASE)]}, []])
def test_a_snapshot_without_history_says_how_to_get_one(value: Any) -> None:
    message = r"has no history.*record one with torch\.cuda\.memory\._record_memory_history\(\)"
    for data in (json.dumps(value).encode(), pickle.dumps(value, 4)):
        with pytest.raises(TraceError, match=message):
            snapshot.read(data, "t", None)


def test_private_pools() -> None:
    private, other, none = (1, 0), (0, 3), (0, 0)
    segments = [segment(BASE, block(512, 9), segment_pool_id=private)]
    events = [
        event("alloc", 1, 10, pool_id=private),
        event("alloc", 2, 20, pool_id=private),
        event("alloc", 3, 30, pool_id=none),
        event("alloc", 4, 40, pool_id=other),
        *freed(1, 10, pool_id=private),
        event("alloc", 5, 50, pool_id=private),
    ]
    trace = read(events, segments)
    begin, end = int(Kind.BEGIN_POOL), int(Kind.END_POOL)
    assert trace.pools == (private, other)
    assert trace.initial == 2
    assert rows(trace) == [
        (begin, 0, 0),
        (A, 0, 9),
        (A, 1, 10),
        (A, 2, 20),
        (end, 0, 0),
        (A, 3, 30),
        (begin, 1, 0),
        (A, 4, 40),
        (F, 1, 0),
        (end, 1, 0),
        (begin, 0, 0),
        (A, 5, 50),
    ]


def test_call_sites_are_kept_once() -> None:
    outer = {"filename": "train.py", "line": 9, "name": "main"}
    inner = {"filename": "model.py", "line": 5, "name": "forward"}
    segments = [segment(BASE, block(512, 1, frames=[outer]))]
    events = [
        event("alloc", 1, 10, frames=[inner, outer]),
        *freed(1, 10, frames=[outer]),
        event("alloc", 1, 10, frames=[dict(inner), dict(outer)]),
        event("alloc", 2, 10),
    ]
    trace = read(events, segments)
    assert trace.site is not None and trace.call_sites is not None
    assert trace.site.tolist() == [1, 0, -1, 0, -1]
    assert [frame.name for frame in trace.call_sites.stack(0)] == ["forward", "main"]
    assert len(trace.call_sites.frames) == 2


def test_steps_of_a_profiler_are_iterations() -> None:
    steps = [
        {"device": 0, "time_us": time, "name": name, "stage": stage}
        for time, name, stage in [
            (15, "ProfilerStep#1", "START"),
            (25, "ProfilerStep#1", "END"),
            (25, "ProfilerStep#2", "START"),
            (26, "forward", "START"),
        ]
    ]
    events = [event("alloc", time, 8, time_us=time) for time in (10, 20, 30)]
    trace = read(events, external_annotations=steps)
    assert trace.kind.tolist() == [A, Kind.ITERATION, A, Kind.ITERATION, A]
    assert trace.marks_from == "recorded"
    assert trace.time_us is not None and trace.time_us.tolist() == [10, 20, 20, 30, 30]


def test_recorded_histories_began_with_known_segments(shared_data: Path) -> None:
    """Counts and GiB as the recordings are described."""
    told = {
        "lm-medium-ctx512-train": (399, 11.7),
        "lm-medium-ctx128-train": (377, 6.7),
        "lm-xl-ctx128-fullstep": (227, 12.8),
        "finetune-small": (63, 1.3),
    }
    for name, (count, size) in told.items():
        snapshot, device = read_snapshot(shared_data / f"{name}.snapshot.json.gz")
        first = initial_segments(snapshot["segments"], snapshot["device_traces"][device])
        assert len(first) == count
        assert sum(s.size for s in first) / 2**30 == pytest.approx(size, abs=0.06)


@pytest.mark.parametrize("name", ["demo", "fsdp", "snapshot"])
def test_what_we_write_the_viewer_reads(name: str, make_trace: MakeTrace) -> None:
    trace = read_trace(name)
    trace = trace if len(trace) < 10_000 else short(trace)
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(snapshot_write.write_pickle(trace))}
    assert opcodes <= VIEWER


def short(trace: Trace) -> Trace:
    return trace.select(np.arange(5000))


def test_segments_that_we_write_agree_with_the_events() -> None:
    trace = short(read_trace("fsdp"))
    written = snapshot_write.to_snapshot(trace)
    live: dict[int, tuple[int, int]] = {}
    for entry in written["device_traces"][0]:
        if entry["action"] == "alloc":
            live[entry["addr"]] = (entry["size"], entry["stream"])
        elif entry["action"] == "free_completed":
            del live[entry["addr"]]
    found = {}
    for part in written["segments"]:
        position = part["address"]
        for piece in part["blocks"]:
            assert piece["address"] == position, "blocks follow each other without gaps"
            assert piece["requested_size"] <= piece["size"]
            position += piece["size"]
            if piece["state"] == "active_allocated":
                found[piece["address"]] = (piece["requested_size"], part["stream"])
        assert position == part["address"] + part["total_size"]
        assert part["allocated_size"] == sum(b["size"] for b in part["blocks"] if b["state"] != "inactive")
    assert found == live
    assert len(written["segments"]) == len(trace.streams)


def test_addresses_that_we_write_never_overlap() -> None:
    written = snapshot_write.to_snapshot(short(read_trace("demo")))
    ends: dict[int, int] = {}
    for entry in written["device_traces"][0]:
        start, end = entry["addr"], entry["addr"] + entry["size"]
        if entry["action"] == "alloc":
            assert all(end <= other or start >= stop for other, stop in ends.items())
            ends[start] = end
        elif entry["action"] == "free_completed":
            del ends[start]


def test_a_recorded_snapshot_survives_being_written(shared_data: Path, tmp_path: Path) -> None:
    for source in sorted(shared_data.glob("*.snapshot.json.gz")):
        trace = read_trace(source)
        path = tmp_path / "again.pickle"
        write_trace(trace, path, force=True)
        again = read_trace(path)
        assert again.initial == trace.initial
        np.testing.assert_array_equal(again.kind, trace.kind)
        np.testing.assert_array_equal(again.live_bytes()[trace.initial :], trace.live_bytes()[trace.initial :])


def test_recorded_histories_end_as_their_segments_say(shared_data: Path) -> None:
    sources = sorted(shared_data.glob("*.snapshot.json.gz"))
    assert sources
    for source in sources:
        trace = read_trace(source)
        made = trace.size[trace.kind == Kind.ALLOCATE]
        alive = np.ones(len(made), dtype=bool)
        alive[trace.id[trace.kind == Kind.FREE]] = False
        told = [
            piece["requested_size"]
            for part in read_snapshot(source)[0]["segments"]
            for piece in part["blocks"]
            if piece["state"] != "inactive"
        ]
        assert sorted(made[alive].tolist()) == sorted(told), source.name
