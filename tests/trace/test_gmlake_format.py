"""Our own format: an old file stays readable, a damaged one is refused."""

from __future__ import annotations

import hashlib
import json
import lzma
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmlake.trace import Kind, Trace, TraceError, read_trace
from gmlake.trace.formats import gmlake

GOLDEN = Path(__file__).parent / "golden.gmt"
MakeFile = Callable[[str, bytes], Path]
PREFIX = struct.Struct("<8sHII")


def test_the_golden_file_reads_as_on_the_day_it_was_written() -> None:
    trace = read_trace(GOLDEN, find_marks=False)
    assert trace.kind.tolist() == [0, 0, 2, 4, 0, 5, 3, 1, 2, 0, 1, 7, 6, 1]
    assert trace.id.tolist() == [0, 1, 0, 0, 2, 0, 1, 1, 1, 3, 2, 0, 0, 3]
    assert trace.size.tolist() == [4096, 100, 0, 0, 4096, 0, 0, 0, 0, 1 << 33, 0, 0, 0, 0]
    assert trace.stream.tolist() == [0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]
    assert trace.streams == (0, 94_511)
    assert trace.pools == ((0, 5),)
    assert (trace.initial, trace.device, trace.source, trace.marks_from) == (2, 1, "snapshot", "recorded")
    assert trace.time_us is not None and trace.time_us.tolist() == [*range(1000, 1013), 900]
    assert trace.site is not None and trace.call_sites is not None
    assert trace.site.tolist() == [0, -1, -1, -1, 1, -1, -1, -1, -1, 0, -1, -1, -1, -1]
    assert [frame.name for frame in trace.call_sites.stack(1)] == ["backward", "main"]


def test_writing_the_golden_trace_gives_the_golden_columns() -> None:
    """The encoding is part of the format; xz itself may compress differently elsewhere."""
    golden = GOLDEN.read_bytes()
    again = gmlake.write(read_trace(GOLDEN, find_marks=False))
    assert columns_of(again) == columns_of(golden)


def columns_of(data: bytes) -> dict[str, tuple[int, int, str]]:
    _, _, length, _ = PREFIX.unpack_from(data)
    table = json.loads(data[PREFIX.size : PREFIX.size + length])["columns"]
    offset, found = PREFIX.size + length, {}
    for name, count, width, size, _ in table:
        raw = lzma.decompress(data[offset : offset + size])
        found[name] = (count, width, hashlib.sha256(raw).hexdigest())
        offset += size
    return found


def test_cut_anywhere_it_is_refused(make_file: MakeFile) -> None:
    data = GOLDEN.read_bytes()
    for length in range(len(data)):
        with pytest.raises(TraceError):
            read_trace(make_file("cut.gmt", data[:length]))


def test_more_than_the_columns_is_refused(make_file: MakeFile) -> None:
    with pytest.raises(TraceError, match="3 bytes follow the last column"):
        read_trace(make_file("long.gmt", GOLDEN.read_bytes() + b"abc"))


@settings(max_examples=300)
@given(position=st.integers(0, GOLDEN.stat().st_size - 1), flip=st.integers(1, 255))
def test_a_flipped_byte_is_noticed(position: int, flip: int) -> None:
    data = bytearray(GOLDEN.read_bytes())
    data[position] ^= flip
    with pytest.raises(TraceError):
        gmlake.read(bytes(data), "flipped", None)


def forged(change: Callable[[dict[str, Any]], None], blocks: dict[str, bytes] | None = None) -> bytes:
    """The golden file with another header, all checksums right: what a liar would send."""
    data = GOLDEN.read_bytes()
    _, version, length, _ = PREFIX.unpack_from(data)
    header = json.loads(data[PREFIX.size : PREFIX.size + length])
    offset, parts = PREFIX.size + length, []
    for row in header["columns"]:
        block = data[offset : offset + row[3]]
        offset += row[3]
        if blocks and row[0] in blocks:
            block = lzma.compress(blocks[row[0]])
            row[3], row[4] = len(block), zlib.crc32(block)
        parts.append(block)
    change(header)
    encoded = json.dumps(header).encode()
    prefix = PREFIX.pack(gmlake.MAGIC, version, len(encoded), zlib.crc32(encoded))
    return prefix + encoded + b"".join(parts)


def set_column(name: str, place: int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        next(row for row in header["columns"] if row[0] == name)[place] = value

    return change


def unchanged(header: dict[str, Any]) -> None:
    pass


def test_the_forger_is_believed_when_it_tells_the_truth() -> None:
    assert len(gmlake.read(forged(unchanged), "t", None)) == 14


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (set_column("kind", 1, 1 << 40), "claims 1099511627776 values"),
        (set_column("kind", 1, -1), "claims -1 values"),
        (set_column("kind", 2, 3), "of 3 bytes"),
        (set_column("kind", 1, 15), "does not hold the 15 values"),
        (set_column("kind", 1, 13), "does not hold the 13 values"),
        (set_column("back", 0, "front"), "does not describe"),
        (lambda header: header.update(columns=None), "does not describe"),
        (lambda header: header.update(columns=[[1, 2]]), "does not describe"),
        (lambda header: header.update(streams=[0]), "expected below 1"),
        (lambda header: header.update(streams="none"), "does not describe"),
        (lambda header: header.update(initial=5), "among the initial ones"),
        (lambda header: header.update(marks_from="gossip"), "marks_from"),
        (lambda header: header.update(pools=[]), "names pool 0"),
        (lambda header: header.pop("device"), "does not describe"),
    ],
)
def test_a_header_that_lies_is_caught(lie: Callable[[dict[str, Any]], None], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        gmlake.read(forged(lie), "t", None)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"kind": bytes([1] * 14)}, "does not describe|never made"),
        ({"kind": bytes([200] * 14)}, "does not describe|kind 200"),
        ({"back": bytes([9, 9, 9, 9])}, "never made"),
        ({"again": bytes([1, 0, 2, 0])}, "size that was never given"),
        ({"site": bytes([9, 9, 9, 9])}, "call site"),
        ({"sites": b'{"frames":[],"stacks":[[4]]}'}, "does not hold|frame that is not"),
    ],
)
def test_columns_that_lie_are_caught(blocks: dict[str, bytes], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        gmlake.read(forged(unchanged, blocks), "t", None)


def test_other_versions_are_named(make_file: MakeFile) -> None:
    data = bytearray(GOLDEN.read_bytes())
    data[8:10] = struct.pack("<H", 9)
    with pytest.raises(TraceError, match="version 9, expected 1"):
        read_trace(make_file("future.gmt", bytes(data)))


def test_a_transfer_as_text_is_named(make_file: MakeFile) -> None:
    data = GOLDEN.read_bytes().replace(b"\r\n", b"\n")
    with pytest.raises(TraceError, match="altered in transfer"):
        read_trace(make_file("text.gmt", data))


def test_a_repeating_trace_is_small() -> None:
    """A thousand equal iterations cost hardly more than ten."""
    assert len(gmlake.write(repeating(1000))) < 2 * len(gmlake.write(repeating(10))) + 1000


def repeating(iterations: int) -> Trace:
    kind = np.tile(np.array([2, 0, 0, 0, 1, 1, 1], np.uint8), iterations)
    number = np.arange(iterations)[:, None]
    ids = np.concatenate((number, 3 * number + np.array([0, 1, 2, 2, 0, 1])), axis=1).ravel()
    size = np.where(kind == Kind.ALLOCATE, np.tile([0, 512, 1 << 21, 77, 0, 0, 0], iterations), 0)
    stream = np.zeros(len(kind), np.uint32)
    return Trace(kind, ids.astype(np.uint32), size.astype(np.int64), stream, marks_from="recorded")
