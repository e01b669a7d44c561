"""Pickles that want to do more than hold a snapshot: refused in one sentence, and nothing happens."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmlake.trace import TraceError, read_trace
from gmlake.trace.formats import plain_pickle
from gmlake.trace.formats.sites import SiteTable

MakeFile = Callable[[str, bytes], Path]

EVENT = {"action": "alloc", "addr": 0x7F0000000000, "size": 8, "stream": 0, "time_us": 1, "pool_id": (0, 0)}
SNAPSHOT = {"segments": [], "device_traces": [[EVENT, {**EVENT, "action": "free_requested"}]]}


class Harmful:
    """Touches a file when it is unpickled by anyone who believes it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.target,))


class WithState:
    """A class of our own: needs an import, then BUILD."""

    def __init__(self) -> None:
        self.x = 1


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_types_are_admitted(protocol: int) -> None:
    assert plain_pickle.load(pickle.dumps(SNAPSHOT, protocol)) == SNAPSHOT


@pytest.mark.parametrize("protocol", [0, 1])
@pytest.mark.parametrize("value", [{"segments": [], "device_traces": []}, [{"address": 1}], {}, []])
def test_old_protocols_are_named(protocol: int, value: object, make_file: MakeFile) -> None:
    with pytest.raises(TraceError, match="is a pickle of protocol 0 or 1, expected 2 to 5"):
        read_trace(make_file("old.pickle", pickle.dumps(value, protocol)))


@pytest.mark.parametrize("protocol", [2, 4])
def test_every_plain_value_comes_back(protocol: int) -> None:
    numbers = [0, 255, 256, 65535, 65536, -1, 2**31 - 1, 2**31, -(2**31), 2**40, 2**47, 2**62, -(2**50)]
    value = {
        "numbers": numbers,
        "text": ["", "x" * 300, "é" * 70_000],
        "rest": [None, True, False, 0.5, {}, ()],
    }
    assert plain_pickle.load(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_code_is_never_run(protocol: int, tmp_path: Path, make_file: MakeFile) -> None:
    target = tmp_path / "touched"
    hostile = pickle.dumps({**SNAPSHOT, "extra": Harmful(target)}, protocol)
    with pytest.raises(TraceError):
        read_trace(make_file("hostile.pickle", hostile))
    assert not target.exists()
    pickle.loads(hostile)
    assert target.exists(), "the pickle would have done it"


P2 = b"\x80\x02"
PADDING = b"N" * 32  # so that no opcode is mistaken for one that is cut off


@pytest.mark.parametrize(
    ("opcode", "data"),
    [
        ("GLOBAL", P2 + b"cos\nsystem\n(X\x02\x00\x00\x00lstR."),
        ("STACK_GLOBAL", b"\x80\x04\x8c\x02os\x8c\x06system\x93."),
        ("REDUCE", P2 + b"NNR" + PADDING + b"."),
        ("INST", P2 + b"(X\x02\x00\x00\x00lsios\nsystem\n."),
        ("OBJ", P2 + b"(No" + PADDING + b"."),
        ("BUILD", P2 + b"}}b" + PADDING + b"."),
        ("NEWOBJ", P2 + b"N)\x81" + PADDING + b"."),
        ("NEWOBJ_EX", b"\x80\x04N)}\x92" + PADDING + b"."),
        ("EXT1", P2 + b"\x82\x01" + PADDING + b"."),
        ("EXT4", P2 + b"\x84\x01\x00\x00\x00" + PADDING + b"."),
        ("PERSID", P2 + b"Pfile\n" + PADDING + b"."),
        ("BINPERSID", P2 + b"NQ" + PADDING + b"."),
        ("BYTEARRAY8", b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + PADDING + b"."),
        ("BINBYTES8", b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + PADDING + b"."),
        ("LONG4", P2 + b"\x8b" + struct.pack("<i", 1 << 30) + PADDING + b"."),
        ("NEXT_BUFFER", b"\x80\x05\x97" + PADDING + b"."),
        ("FROZENSET", b"\x80\x04(N\x91" + PADDING + b"."),
        ("PUT", P2 + b"]p999999999\n" + PADDING + b"."),
        ("INT", P2 + b"I" + b"9" * 5000 + b"\n."),
        ("DUP", P2 + b"N2" + PADDING + b"."),
        ("LONG_BINPUT", P2 + b"]r" + struct.pack("<I", 0xFFFFFFF0) + PADDING + b"."),
    ],
)
def test_every_other_opcode_is_named(opcode: str, data: bytes, make_file: MakeFile) -> None:
    with pytest.raises(TraceError, match=f"asks for {opcode} at byte"):
        read_trace(make_file("hostile.pickle", data))


@pytest.mark.parametrize("value", [OrderedDict(a=1), {1, 2}, frozenset({1}), np.int64(3), b"bytes", WithState()])
def test_types_that_are_not_plain_are_refused(value: object) -> None:
    with pytest.raises(TraceError, match="asks for"):
        plain_pickle.load(pickle.dumps({**SNAPSHOT, "x": value, "padding": "x" * 50}, 4))


def test_nested_tuples_would_overflow_the_stack_when_hashed() -> None:
    deep = b"\x80\x02}(K\x00" + b"\x85" * 1_000_000 + b"K\x01u" + PADDING + b"."
    with pytest.raises(TraceError, match="asks for TUPLE1"):
        plain_pickle.load(deep)
    for body in (
        b"(" * 1000 + b"K\x00" + b"t" * 1000,
        b"K\x00" + b"K\x00\x86" * 1000,
        b"K\x00" + b"q\x00K\x00\x86" * 9,
    ):
        with pytest.raises(TraceError, match="asks for TUPLE"):
            plain_pickle.load(P2 + b"}" + body + PADDING + b".")


def test_a_billion_laughs_stays_one_laugh(make_file: MakeFile) -> None:
    """Each list holds the one before ten times over: tiny to hold, endless to walk."""
    data = b"\x80\x04]\x94"
    for level in range(60):
        data += b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"e\x94"
    with pytest.raises(TraceError, match=r"not a memory snapshot|no history"):
        read_trace(make_file("laughs.pickle", data + b"."))
    inside = b"\x80\x04}(\x8c\x0ddevice_traces" + data[2:] + b"u."
    with pytest.raises(TraceError):
        read_trace(make_file("inside.pickle", inside))


def test_what_is_named_again_and_again_is_read_once() -> None:
    class Counted(list[Any]):
        times = 0

        def __iter__(self) -> Any:
            self.times += 1
            return super().__iter__()

    stack = Counted([{"filename": "a.py", "line": 1, "name": "f"}] * 3)
    table = SiteTable()
    assert [table.number(stack) for _ in range(5)] == [0] * 5
    assert stack.times == 1
    with pytest.raises(TraceError, match="frames that are not a list"):
        table.number(stack[0])
    with pytest.raises(TraceError, match="frame that is not a dict"):
        table.number([stack])


def test_lists_that_are_named_again_and_again_do_not_multiply(make_file: MakeFile) -> None:
    block = {"size": 512, "state": "active_allocated"}
    blocks = [block] * 3_000
    segments = [{"address": place << 32, "blocks": blocks} for place in range(3_000)]
    many = [{**EVENT, "addr": list(range(3_000))}] * 3_000
    for snapshot, complaint in (
        ({**SNAPSHOT, "segments": segments}, "has the same blocks in two segments"),
        ({**SNAPSHOT, "device_traces": [many]}, "'addr' of the events holds a list"),
    ):
        data = pickle.dumps(snapshot, 4)
        assert len(data) < 300_000
        tracemalloc.start()
        with pytest.raises(TraceError, match=complaint):
            read_trace(make_file("shared.pickle", data))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000


def test_depth_without_end_is_no_crash(make_file: MakeFile) -> None:
    deep = b"]q\x00q\x00" * 100_000 + b"a" * 99_999
    for place in ("addr", "size", "stream", "time_us", "pool_id", "frames", "action"):
        data = pickle.dumps({"segments": [], "device_traces": [[{**EVENT, place: 0.125}]]}, 2)
        nested = data.replace(pickle.dumps(0.125, 2)[2:-1], deep)
        assert nested != data
        with pytest.raises(TraceError, match=r"holds a list|names the pool|frame that is not|without an action"):
            read_trace(make_file("deep.pickle", nested))
    text = b'{"segments":[],"device_traces":' + b"[x" * 100_000
    with pytest.raises(TraceError, match="JSON"):
        read_trace(make_file("deep.json", text))


def test_memory_stays_in_proportion(make_file: MakeFile) -> None:
    bombs = [
        b"\x80\x04" + b"}" * 200_000 + b".",
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 50) + b"x" * 100 + b".",
        b"\x80\x04X" + struct.pack("<I", 0xFFFFFFFF) + b"x" * 100 + b".",
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"N.",
    ]
    tracemalloc.start()
    for bomb in bombs:
        with pytest.raises(TraceError):
            read_trace(make_file("bomb.pickle", bomb))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_cut_anywhere_it_is_refused(make_file: MakeFile) -> None:
    data = pickle.dumps(SNAPSHOT, 4)
    for length in range(len(data)):
        with pytest.raises(TraceError):
            read_trace(make_file("cut.pickle", data[:length]))
    with pytest.raises(TraceError, match="4 bytes after the end"):
        read_trace(make_file("long.pickle", data + b"more"))


@settings(max_examples=500)
@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_give_a_trace_or_one_sentence(flips: list[tuple[int, int]]) -> None:
    data = bytearray(pickle.dumps(SNAPSHOT, 4))
    for position, flip in flips:
        data[position % len(data)] ^= flip
    try:
        plain_pickle.load(bytes(data))
    except TraceError as error:
        assert "\n" not in str(error)


@given(data=st.binary(max_size=200))
def test_random_opcodes_give_a_value_or_one_sentence(data: bytes) -> None:
    try:
        plain_pickle.load(b"\x80\x04" + data)
    except TraceError as error:
        assert "\n" not in str(error)
