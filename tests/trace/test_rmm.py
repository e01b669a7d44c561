"""Logs of RAPIDS RMM, and the CSV of minimalloc."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gmlake.trace import Kind, Trace, TraceError
from gmlake.trace.formats import minimalloc, rmm

MakeTrace = Callable[..., Trace]
HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"


def read(*lines: str) -> Trace:
    return rmm.read((HEADER + "\n".join(lines) + "\n").encode(), "log", None)


def test_a_log() -> None:
    trace = read(
        "1168,12:01:13.123456,allocate,0x7f0000000000,1024,0",
        "1168,12:01:13.123457,allocate failure,(nil),999999999999,0",
        "1169,12:01:13.123458,allocate,0x7f0000000400,2048,0x55aa",
        "1168,12:01:13.123459,free,0x7f0000000000,1024,0",
        "1168,12:01:13.123460,allocate,0x7f0000000000,10,0",
        "1168,12:01:13.123461,allocate,(nil),0,0",
        "1168,12:01:13.123462,free,(nil),0,0",
    )
    assert trace.kind.tolist() == [Kind.ALLOCATE, Kind.ALLOCATE, Kind.FREE, Kind.ALLOCATE]
    assert trace.id.tolist() == [0, 1, 0, 2]
    assert trace.size.tolist() == [1024, 2048, 0, 10]
    assert trace.streams == (0, 0x55AA)
    assert trace.stream.tolist() == [0, 1, 0, 0]
    assert (trace.initial, trace.source) == (0, "rmm")


def test_a_log_that_begins_late() -> None:
    trace = read(
        "1,0:0:0.1,free,0x900,77,0",
        "1,0:0:0.2,allocate,0x900,5,0",
        "1,0:0:0.3,free,0x300,88,0",
    )
    assert trace.initial == 2
    assert trace.size.tolist() == [88, 77, 0, 5, 0]
    assert trace.id.tolist() == [0, 1, 1, 2, 0]


def test_other_ways_to_write_a_log() -> None:
    data = "\ufeff" + HEADER.replace("\n", "\r\n") + "1,t,allocate,0x10,5,0\r\n\r\n1,t,deallocate,0x10,5,0\r\n"
    assert rmm.sniff(data.encode())
    assert rmm.read(data.encode(), "log", None).kind.tolist() == [Kind.ALLOCATE, Kind.FREE]
    assert len(read()) == 0


@pytest.mark.parametrize(
    "line",
    [
        "1,2,3",
        "1,t,borrow,0x10,5,0",
        "1,t,allocate,zzz,5,0",
        "1,t,allocate,0x10,many,0",
        "1,t,allocate,0x10,5,default!",
    ],
)
def test_a_bad_line_is_named(line: str) -> None:
    with pytest.raises(TraceError, match=r"line 3 is '.*', expected thread,time,allocate"):
        read("1,t,allocate,0x20,5,0", line)


def test_contradictions_and_absurd_numbers() -> None:
    with pytest.raises(TraceError, match="event 1 allocates id 16, which is live already"):
        read("1,t,allocate,0x10,5,0", "1,t,allocate,0x10,5,0")
    with pytest.raises(TraceError, match="pointers holds 18446744073709551616"):
        read("1,t,allocate,0x10000000000000000,5,0")
    with pytest.raises(TraceError, match="pointers holds a number of many digits, expected"):
        read(f"1,t,allocate,0x{'f' * 5000},5,0")
    with pytest.raises(TraceError, match="allocates -5 bytes"):
        read("1,t,allocate,0x10,-5,0")
    with pytest.raises(TraceError, match="holds one device only, not device 2"):
        rmm.read(HEADER.encode(), "log", 2)


def test_minimalloc_gets_lifetimes_in_event_indices(make_trace: MakeTrace) -> None:
    trace = make_trace([(0, 0, 4, 0), (0, 1, 6, 0), (1, 0, 0, 0), (7, 0, 0, 0), (0, 2, 8, 0), (1, 1, 0, 0)])
    assert minimalloc.write(trace).decode().splitlines() == [
        "id,lower,upper,size",
        "0,0,2,4",
        "1,1,5,6",
        "2,4,6,8",
    ]
