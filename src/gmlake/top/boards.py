"""Finding and reading boards: the shared memory in which GMLake processes keep their counters.

A board is a memfd, and /proc/PID/fd leads to it: there is no file that could be stale, and none that somebody else
could have put there. Only processes of this user are looked at. Still nothing is believed: what is not exactly a
board of known size with offsets inside it is reported as broken, in one line, and left out.

The layout is described in core/watch/board.h.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_NAME = "/memfd:gmlake-board"
_MAGIC = b"gmlake\0\1"
_HEADER = struct.Struct("<8sIIqIIQq")
_GAUGE = struct.Struct("<16s4I")
_COUNTER = struct.Struct("<q")
_LARGEST = 32 << 10
_KNOWN = (
    "allocated",
    "active",
    "peak_active",
    "reserved",
    "peak_reserved",
    "stitches",
    "retries",
    "ooms",
    "last_oom_us",
    "last_oom_bytes",
)


class NotABoard(Exception):
    """Something that looks like a board but is none; the message says why."""


@dataclass(frozen=True)
class Process:
    """What one process has of one device. Bytes unless the name says otherwise."""

    pid: int
    name: str
    device: int
    capacity: int
    since: float  # when it began to use the device, in seconds since the epoch
    allocated: int
    active: int
    peak_active: int
    reserved: int
    peak_reserved: int
    stitches: int
    retries: int
    ooms: int
    last_oom_us: int  # since the epoch; 0: never
    last_oom_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Broken:
    """A board that could not be read."""

    pid: int
    why: str


def look() -> tuple[list[Process], list[Broken]]:
    """All GMLake processes of this user, by pid and device, and what could not be read."""
    found: list[Process] = []
    broken: list[Broken] = []
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        pid = int(folder.name)
        for path in _board_files(folder):
            try:
                process = _read(pid, path)
            except NotABoard as error:
                broken.append(Broken(pid, str(error)))
            except OSError:
                continue  # closed meanwhile
            else:
                found += [process] if process is not None else []
    return sorted(found, key=lambda process: (process.pid, process.device)), broken


def _board_files(folder: Path) -> list[Path]:
    """Descriptors of a process of this user that name themselves boards."""
    try:
        files = [*(folder / "fd").iterdir()] if folder.stat().st_uid == os.getuid() else []
    except OSError:  # it has just ended, or does not let itself be looked at
        return []
    return [file for file in files if _target(file).startswith(_NAME)]


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # closed meanwhile
        return ""


def _read(pid: int, path: Path) -> Process | None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise NotABoard("it is not a file of this user")
        if not _HEADER.size <= status.st_size <= _LARGEST:
            raise NotABoard(f"it has {status.st_size} bytes")
        data = os.pread(file, _LARGEST, 0)
    finally:
        os.close(file)
    return parse(pid, data)


def parse(pid: int, data: bytes) -> Process | None:
    """The process behind a board; None if it is another's, inherited by a fork, or is not shown yet."""
    magic, size, gauges, owner, device, _, capacity, shown_us = _HEADER.unpack_from(data)
    if magic == bytes(len(_MAGIC)):
        return None
    if magic != _MAGIC:
        raise NotABoard("it does not begin as a board does; is it of another version of gmlake?")
    if size != len(data) or _HEADER.size + gauges * _GAUGE.size > len(data):
        raise NotABoard("its size is wrong")
    if owner != pid and owner != _own_number(pid):
        return None
    figures = dict(_figure(data, number) for number in range(gauges))
    missing = [name for name in _KNOWN if name not in figures]
    if missing:
        raise NotABoard(f"it does not show {missing[0]}")
    known = {name: figures[name] for name in _KNOWN}
    return Process(pid, _name(pid), device, capacity, shown_us / 1e6, **known)


def _figure(data: bytes, number: int) -> tuple[str, int]:
    name, *offsets = _GAUGE.unpack_from(data, _HEADER.size + number * _GAUGE.size)
    total = 0
    for offset, sign in zip(offsets, (1, 1, -1, -1), strict=True):
        if offset > len(data) - _COUNTER.size:
            raise NotABoard("a counter lies outside")
        if offset:
            total += sign * _COUNTER.unpack_from(data, offset)[0]
    return name.rstrip(b"\0").decode(errors="replace"), total


def _own_number(pid: int) -> int:
    """What the process itself takes for its pid: another number if it runs in a container."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def _name(pid: int) -> str:
    """The command in short, as in: train.py. Control characters are taken out: anyone may name a process anything."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    words = [word for word in words if word]
    program = Path(words[0]).name if words else "?"
    if program.startswith("python") and len(words) > 1:
        script = next((word for word in words[1:] if not word.startswith("-")), None)
        program = Path(script).name if script and "-c" not in words[1:3] else program
    return "".join(letter if letter.isprintable() else "?" for letter in program)[:32]
