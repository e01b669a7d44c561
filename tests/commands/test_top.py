"""gmlake top: processes on the emulated device, seen from outside. No PyTorch is needed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gmlake.commands.top import picture
from gmlake.emulator.launch import native_library
from gmlake.emulator.standins import stand_ins
from gmlake.top import Process, look
from gmlake.top.boards import NotABoard, parse

from .conftest import MIB, NO_WIDTH, Cli, assert_refused, heed_interrupts

NAME = f"train{os.getpid()}.py"  # other processes of this user may be seen as well

# Does what it is told, a line at a time, and answers with its own statistics of device 0.
PROGRAM = """
import json, os, sys
from gmlake import _core

blocks = []
for line in sys.stdin:
    verb, _, number = line.strip().partition(" ")
    if verb == "allocate":
        try:
            blocks.append(_core.process_allocator(0).allocate(int(number)))
        except _core.OutOfMemory:
            pass
    elif verb == "second":
        _core.process_allocator(1).allocate(int(number))
    elif verb == "release":
        _core.process_allocator(0).release(blocks.pop(int(number)))
    elif verb == "fork":
        kept = _core.process_allocator(0)
        parent_lives, end = os.pipe()
        done, tell = os.pipe()
        if os.fork() == 0:
            os.close(end)
            kept.reset_peaks()  # of its own copy
            os.write(tell, b"done")
            os.read(parent_lives, 1)
            os._exit(0)
        os.read(done, 4)
    found = _core.process_allocator(0).statistics()
    print(json.dumps({"allocated": found["allocated_bytes"]["all"]["current"],
                      "active": found["active_bytes"]["all"]["current"],
                      "reserved": found["reserved_bytes"]["all"]["current"],
                      "peak_reserved": found["reserved_bytes"]["all"]["peak"],
                      "stitches": found["gmlake"]["stitches"], "ooms": found["num_ooms"]}), flush=True)
"""


class Child:
    def __init__(self, script: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")}
        device = {"LD_PRELOAD": f"{native_library()}:{stand_ins(None)}", "GMLAKE_DEVICE": f"memory={1 << 30};count=2"}
        self.process = subprocess.Popen(
            [sys.executable, script],
            env=clean | device,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid

    def tell(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def seen(self) -> list[Process]:
        return [process for process in look()[0] if process.pid == self.pid]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    script = tmp_path / NAME
    script.write_text(PROGRAM)
    started = Child(script)
    yield started
    assert started.process.stdin is not None
    started.process.stdin.close()
    assert started.process.wait(30) == 0


def test_counters_are_those_of_the_process_itself(child: Child) -> None:
    for line in ("allocate 1000", f"allocate {40 * MIB}", f"allocate {100 * MIB}", "release 1", f"allocate {90 * MIB}"):
        own = child.tell(line)
        (seen,) = child.seen()
        assert {key: getattr(seen, key) for key in own} == own
    assert seen.name == NAME
    assert (seen.device, seen.capacity, seen.ooms, seen.last_oom_us) == (0, 1 << 30, 0, 0)
    assert seen.peak_active >= seen.active > 0
    assert abs(seen.since - time.time()) < 600


def test_stitches_and_running_out_of_memory_are_seen(child: Child) -> None:
    for _ in range(10):
        child.tell(f"allocate {100 * MIB}")
    for number in range(5):
        child.tell(f"release {number}")  # every other one
    own = child.tell(f"allocate {350 * MIB}")
    (seen,) = child.seen()
    assert seen.stitches == own["stitches"] > 0
    assert seen.ooms == 0
    before = time.time()
    own = child.tell(f"allocate {900 * MIB}")
    (seen,) = child.seen()
    assert (seen.ooms, own["ooms"], seen.last_oom_bytes) == (1, 1, 900 * MIB)
    assert before - 1 < seen.last_oom_us / 1e6 < time.time() + 1


def test_every_device_has_a_row(child: Child) -> None:
    child.tell("allocate 512")
    child.tell(f"second {8 * MIB}")
    first, second = child.seen()
    assert (first.device, first.allocated) == (0, 512)
    assert (second.device, second.allocated) == (1, 8 * MIB)


def test_a_process_that_did_nothing_yet_and_one_that_ended_are_not_shown(child: Child) -> None:
    assert child.seen() == []
    child.tell("allocate 512")
    assert len(child.seen()) == 1
    child.process.kill()
    child.process.wait()
    assert child.seen() == []
    child.process = subprocess.Popen(["true"], stdin=subprocess.PIPE, text=True)


def test_a_forked_child_is_not_shown_and_its_parents_counters_stay_its_own(child: Child) -> None:
    child.tell(f"allocate {30 * MIB}")
    child.tell("release 0")
    own = child.tell("fork")
    assert own["peak_reserved"] == child.seen()[0].peak_reserved
    assert child.seen()[0].peak_active == 30 * MIB
    assert [(process.pid, process.allocated) for process in look()[0] if process.name == NAME] == [
        (child.pid, own["allocated"])
    ]
    own = child.tell(f"allocate {7 * MIB}")
    assert child.seen()[0].allocated == own["allocated"]


def test_once_prints_a_table_and_json_the_same_figures(cli: Cli, child: Child) -> None:
    own = child.tell(f"allocate {64 * MIB}")
    done = cli("top", "--once", env={"COLUMNS": "300"})
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line for line in done.stdout.splitlines() if str(child.pid) in line.split())
    assert NAME in row and "64.00 MiB" in row and "1.00 GiB" in row
    piped = cli("top", "--once", env=NO_WIDTH).stdout.splitlines()
    assert "peak" in piped[0] and "out of memory" in piped[0]
    narrow = cli("top", "--once", env={"COLUMNS": "60"}).stdout
    assert "64.00 MiB" in narrow and max(map(len, narrow.splitlines())) <= 60, narrow
    line = json.loads(cli("top", "--once", "--json").stdout)
    (process,) = [one for one in line["processes"] if one["pid"] == child.pid]
    assert process["allocated"] == own["allocated"]
    assert set(process) == set(Process.__dataclass_fields__)


def test_json_goes_on_until_it_is_interrupted(child: Child) -> None:
    child.tell("allocate 512")
    command = [sys.executable, "-m", "gmlake", "top", "--json", "--interval", "0.1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        for size in (512, 1024, 1536):
            lines = (json.loads(watching.stdout.readline()) for _ in range(200))
            assert any(
                one["pid"] == child.pid and one["allocated"] == size for line in lines for one in line["processes"]
            )
            child.tell("allocate 512")
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        assert watching.stderr.read() == ""
    assert watching.returncode == 0


def test_a_broken_board_is_skipped_with_one_line(cli: Cli) -> None:
    file = os.memfd_create("gmlake-board")
    try:
        os.write(file, b"nonsense" * 512)
        done = cli("top", "--once", env={"COLUMNS": "300"})
        assert done.returncode == 0
        said = [line for line in done.stdout.splitlines() if f"process {os.getpid()} is left out" in line]
        assert len(said) == 1
        assert "does not begin as a board does" in said[0]
    finally:
        os.close(file)


def board(**changes: Any) -> bytes:
    import struct

    values = {"magic": b"gmlake\0\1", "size": 4096, "gauges": 0, "pid": os.getpid(), "offset": 8} | changes
    head = struct.pack("<8sIIqIIQq", values["magic"], values["size"], values["gauges"], values["pid"], 0, 0, 1, 1)
    row = struct.pack("<16s4I", b"allocated", values["offset"], 0, 0, 0)
    return (head + row).ljust(4096, b"\0")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"magic": b"gmlake\0\2"}, "another version"),
        ({"size": 8192}, "size is wrong"),
        ({"gauges": 1 << 31}, "size is wrong"),
        ({"gauges": 1, "offset": 4090}, "outside"),
        ({"gauges": 1, "offset": 0xFFFFFFFF}, "outside"),
        ({"gauges": 1}, "does not show active"),
    ],
)
def test_boards_are_never_believed(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(NotABoard, match=complaint):
        parse(os.getpid(), board(**changes))


def test_boards_of_others_and_empty_ones_are_passed_over() -> None:
    assert parse(os.getpid(), board(pid=os.getppid())) is None
    assert parse(os.getpid(), bytes(4096)) is None


def test_bad_intervals_are_refused(cli: Cli) -> None:
    assert_refused(cli("top", "--interval", "0"), "from 0.1 to 86400")
    assert_refused(cli("top", "--interval", "soon"), "invalid float value")


@pytest.mark.parametrize("width", [8, 20, 23, 30, 34, 60])
def test_no_figure_is_cut_however_narrow_the_terminal_is(width: int) -> None:
    counters = dict.fromkeys(Process.__dataclass_fields__, 61 << 30) | {"name": "train.py", "since": 1.0, "device": 0}
    process = Process(**counters | {"pid": 1234567, "last_oom_us": 0})  # type: ignore[arg-type]
    console = Console(width=width, file=io.StringIO())
    console.print(picture([process], [], width))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert width < 23 or "61.00 GiB" in text
