"""Files that are missing, empty, of the wrong kind, too large or wrong inside: one sentence with the path."""

from __future__ import annotations

import gzip
import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmlake.errors import UserError
from gmlake.trace import Trace, TraceError, placement, read_snapshot, read_trace, write_trace
from gmlake.trace.formats import npz, rmm, snapshot
from gmlake.trace.trace import MAX_EVENTS

MakeFile = Callable[[str, bytes], Path]
MakeTrace = Callable[..., Trace]


def refused(path: Path | str) -> str:
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_errors_are_the_users_to_see() -> None:
    assert issubclass(TraceError, UserError)


def test_missing_empty_and_not_a_file(tmp_path: Path, make_file: MakeFile) -> None:
    assert "no such file, nor is it a bundled trace (demo, " in refused(tmp_path / "missing")
    assert "no such file" in refused("no-such-name")
    assert "is empty" in refused(make_file("empty", b""))
    assert "is empty" in refused(make_file("empty.gz", gzip.compress(b"")))
    assert "is not a file" in refused(tmp_path)
    with pytest.raises(TraceError, match="a trace has no name"):
        read_trace("")
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in refused(tmp_path / "pipe")


def test_a_folder_does_not_hide_a_bundled_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_trace("demo").name == "demo"


@pytest.mark.parametrize("name", ["trace.gmt", "trace.npz"])
def test_a_trace_without_events(name: str, make_trace: MakeTrace, make_file: MakeFile, tmp_path: Path) -> None:
    write_trace(make_trace([]), tmp_path / name)
    assert "has no events" in refused(tmp_path / name)
    assert "has no events" in refused(make_file("log.csv", b"Thread,Time,Action,Pointer,Size,Stream\n"))


@pytest.mark.parametrize("data", [b"hello", b"\x00" * 100, b"%PDF-1.4", b"a,b,c\n1,2,3\n", b"\x7fELF", b"\xff\xfe"])
def test_other_files_are_no_traces(data: bytes, make_file: MakeFile) -> None:
    message = refused(make_file("other", data))
    assert "is no trace: expected gmlake's own format (.gmt), an .npz " in message
    assert message.endswith(", a log of RAPIDS RMM or a memory snapshot of PyTorch")


def test_gzip_is_unpacked_with_a_limit(make_file: MakeFile) -> None:
    bomb = gzip.compress(b"\x00" * (300 << 20), 9)
    assert "unpacks to more than" in refused(make_file("bomb.gz", bomb))
    good = gzip.compress(b'{"segments": [], "device_traces": []}')
    for length in range(2, len(good)):
        refused(make_file("cut.gz", good[:length]))


def test_gzip_files_that_were_put_together_are_read_to_their_end(make_file: MakeFile) -> None:
    lines = [b"Thread,Time,Action,Pointer,Size,Stream\n1,t,allocate,0x10,5,0\n", b"1,t,free,0x10,5,0\n"]
    together = b"".join(map(gzip.compress, lines))
    assert len(read_trace(make_file("log.csv.gz", together))) == 2
    assert "is not an intact gzip file" in refused(make_file("more.csv.gz", together + b"more"))


@pytest.mark.parametrize(
    "value",
    [
        [],
        [{}],
        {},
        {"segments": 1},
        {"segments": [], "device_traces": 5},
        {"segments": [], "device_traces": [5]},
        {"segments": [], "device_traces": [[5]]},
        {"segments": [], "device_traces": [[{}]]},
        {"segments": [], "device_traces": [[]]},
        {"segments": [3], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1}]]},
        {"segments": [{}], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1}]]},
        {
            "segments": [{"address": 5, "blocks": [{}]}],
            "device_traces": [[{"action": "alloc", "addr": 1, "size": 1}]],
        },
        {"device_traces": [[{"action": "alloc"}]]},
        {"device_traces": [[{"action": "alloc", "addr": "0x7f", "size": 1}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1.5}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": -1}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 0}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 2**60}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 2**70}]]},
        {"device_traces": [[{"action": "alloc", "addr": 2**64, "size": 1}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1}, {"action": "alloc", "addr": 1, "size": 1}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "stream": None}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "pool_id": 3}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "frames": "x"}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "frames": [1]}]]},
        {"device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "frames": [{"line": "x"}]}]]},
        {
            "device_traces": [
                [
                    {"action": "alloc", "addr": 1, "size": 1},
                    {"action": "free_requested", "addr": 1, "size": 1},
                    {"action": "free_requested", "addr": 1, "size": 1},
                ]
            ]
        },
    ],
)
def test_json_of_the_wrong_shape(value: Any, make_file: MakeFile) -> None:
    refused(make_file("wrong.json", json.dumps(value).encode()))


def test_json_that_is_damaged(make_file: MakeFile) -> None:
    text = json.dumps({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1}]]}).encode()
    assert len(read_trace(make_file("good.json", text))) == 1
    for length in range(1, len(text)):
        refused(make_file("cut.json", text[:length]))
    refused(make_file("digits.json", b'{"segments": [], "device_traces": ' + b"9" * 10_000 + b"}"))
    refused(make_file("hollow.json", b"[" + b"[]," * 10_000 + b"[]]"))


@settings(max_examples=300)
@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_json_gives_a_trace_or_one_sentence(flips: list[tuple[int, int]]) -> None:
    block = {"address": 4096, "size": 512, "requested_size": 8, "state": "active_allocated"}
    segment = {"address": 4096, "total_size": 2 << 20, "stream": 0, "device": 0, "blocks": [block]}
    event = {"action": "alloc", "addr": 8192, "size": 100, "stream": 0, "time_us": 5}
    data = bytearray(json.dumps({"segments": [segment], "device_traces": [[event]]}).encode())
    for position, flip in flips:
        data[position % len(data)] ^= flip
    try:
        snapshot.read(bytes(data), "flipped", None)
    except TraceError as error:
        assert "\n" not in str(error)


def archive(**columns: Any) -> bytes:
    good: dict[str, Any] = {
        "kind": np.array([0, 0, 1], np.uint8),
        "id": np.array([5, 9, 5], np.uint32),
        "size": np.array([10, 20, 10]),
        "stream": np.array([0, 1, 0], np.uint8),
    }
    out = io.BytesIO()
    np.savez(out, **{name: value for name, value in {**good, **columns}.items() if value is not None})
    return out.getvalue()


def test_a_good_npz() -> None:
    trace = npz.read(archive(), "t", None)
    assert trace.id.tolist() == [0, 1, 0]
    assert trace.stream.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": None}, "lacks the column id"),
        ({"id": np.array([{}, {}, {}], dtype=object)}, "column id is object"),
        ({"id": np.array([5.0, 9.0, 5.0])}, "column id is float64"),
        ({"id": np.array([[5, 9, 5]])}, "expected whole numbers, one per event"),
        ({"id": np.array([5, 9])}, "columns of lengths"),
        ({"id": np.array([5, -9, 5])}, "event 1 has id -9"),
        ({"id": np.array([5, 2**40, 5])}, "event 1 has id 1099511627776"),
        ({"id": np.array([5, 2**63, 5], np.uint64)}, "expected whole numbers below"),
        ({"id": np.array([5, 5, 5])}, "event 1 allocates id 5, which is live already"),
        ({"id": np.array([5, 9, 7])}, "event 2 frees id 7, which was never allocated before it"),
        ({"kind": np.array([0, 0, 99], np.uint8)}, "event 2 has kind 99"),
        ({"size": np.array([10, -20, 10])}, "event 1 allocates -20 bytes"),
        ({"size": np.array([10, 2**60, 10])}, "event 1 allocates 1152921504606846976 bytes"),
        ({"stream": np.array([0, -1, 0])}, "event 1 has stream -1"),
    ],
)
def test_npz_columns_that_are_wrong(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        npz.read(archive(**columns), "t", None)


def test_npz_members_that_lie(make_file: MakeFile) -> None:
    good = archive()
    with pytest.raises(TraceError, match="intact"):
        npz.read(good[: len(good) // 2], "t", None)
    claims = (
        np.lib.format.magic(1, 0) + b"\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999999,), }"
    )
    for content in (claims.ljust(128) + b"\x00" * 8, b"\x93NUMPY\x01\x00", b"rubbish"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as forged:
            for name in ("kind", "id", "size", "stream"):
                forged.writestr(f"{name}.npy", content)
        refused(make_file("forged.npz", out.getvalue()))


def test_npz_of_too_many_events_is_not_unpacked() -> None:
    out = io.BytesIO()
    np.savez_compressed(out, kind=np.zeros(MAX_EVENTS + 1, np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=f"{MAX_EVENTS + 1} events are more than the {MAX_EVENTS}"):
            npz.read(out.getvalue(), "t", None)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@settings(max_examples=200)
@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_npz_gives_a_trace_or_one_sentence(flips: list[tuple[int, int]]) -> None:
    data = bytearray(archive())
    for position, flip in flips:
        data[position % len(data)] ^= flip
    try:
        npz.read(bytes(data), "flipped", None)
    except TraceError as error:
        assert "\n" not in str(error)


@given(body=st.text(max_size=80))
def test_any_rmm_log_gives_a_trace_or_one_sentence(body: str) -> None:
    try:
        rmm.read(f"Thread,Time,Action,Pointer,Size,Stream\n{body}".encode(), "t", None)
    except TraceError as error:
        assert "\n" not in str(error)


def test_size_zero_disappears_with_what_refers_to_it() -> None:
    trace = npz.read(archive(size=np.array([0, 20, 0])), "t", None)
    assert trace.kind.tolist() == [0]
    assert trace.size.tolist() == [20]
    assert trace.id.tolist() == [0]


def test_nothing_is_overwritten_unless_forced(make_trace: MakeTrace, tmp_path: Path) -> None:
    trace = make_trace([(0, 0, 8, 0)])
    path = tmp_path / "t.gmt"
    assert write_trace(trace, path) == []
    before = path.read_bytes()
    with pytest.raises(TraceError, match="exists already"):
        write_trace(make_trace([]), path)
    assert path.read_bytes() == before
    write_trace(make_trace([]), path, force=True)
    assert path.read_bytes() != before


def test_writing_what_cannot_be_written(make_trace: MakeTrace, tmp_path: Path) -> None:
    trace = make_trace([])
    with pytest.raises(TraceError, match=r"no format has the suffix '\.txt'"):
        write_trace(trace, tmp_path / "t.txt")
    with pytest.raises(TraceError, match="unknown format 'elf', expected one of gmlake"):
        write_trace(trace, tmp_path / "t.gmt", "elf")
    with pytest.raises(TraceError, match="rmm is read, not written"):
        write_trace(trace, tmp_path / "t.csv", "rmm")
    with pytest.raises(TraceError, match="cannot be written: No such file"):
        write_trace(trace, tmp_path / "nowhere" / "t.gmt")


def test_only_snapshots_have_a_history(make_file: MakeFile) -> None:
    with pytest.raises(TraceError, match="is not a memory snapshot"):
        read_snapshot(make_file("t.npz", archive()))


def test_a_snapshot_needs_addresses(make_trace: MakeTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_FIRST_ADDRESS", 2**63 - (4 << 20))
    write_trace(make_trace([(0, 0, 8, 0)]), tmp_path / "one.pickle")
    with pytest.raises(TraceError, match="its 2 streams and pools need more addresses than there are"):
        write_trace(make_trace([(0, 0, 8, 0), (0, 1, 8, 1)], streams=(0, 1)), tmp_path / "two.pickle")
