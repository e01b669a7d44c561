"""What reports and plots show of a trace, as numbers: pure functions of a trace and its replays, no drawing.

Time is counted in events. A value "at" event e is the value after it. Active means requested bytes rounded up to
512 each, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gmlake.replay.engine import MemoryMap
from gmlake.report import sites
from gmlake.trace import Kind, Trace
from gmlake.trace.trace import I64

_STEP = 512  # bytes; PyTorch's smallest block
UNKNOWN_SITE = "unknown"


@dataclass(frozen=True)
class Blocks:
    """The allocations of a trace: live from event `start` until event `end`; never freed ones end with the trace."""

    start: I64
    end: I64
    size: I64  # requested
    stream: I64
    site: I64 | None  # -1 where unknown
    freed: npt.NDArray[np.bool_]

    @property
    def rounded(self) -> I64:
        """Active bytes of every block."""
        return round_up(self.size)

    def live(self, event: int) -> I64:
        """Which blocks are live after this event."""
        return np.flatnonzero((self.start <= event) & (event < self.end))


@dataclass(frozen=True)
class Group:
    """Some of the blocks that are live at a moment."""

    name: str
    blocks: int
    bytes: int  # active


@dataclass(frozen=True)
class Histogram:
    """Blocks by class: class i is named `names[i]`."""

    names: tuple[str, ...]
    blocks: I64
    bytes: I64


def round_up(size: I64) -> I64:
    """Sizes as active bytes."""
    return -(-size // _STEP) * _STEP


def blocks_of(trace: Trace) -> Blocks:
    """Every allocation with its beginning and end."""
    start = np.flatnonzero(trace.kind == Kind.ALLOCATE)
    frees = np.flatnonzero(trace.kind == Kind.FREE)
    end = np.full(len(start), len(trace), dtype=np.int64)
    end[trace.id[frees]] = frees
    freed = np.zeros(len(start), dtype=np.bool_)
    freed[trace.id[frees]] = True
    site = None if trace.site is None or trace.call_sites is None else trace.site[start].astype(np.int64)
    return Blocks(start, end, trace.size[start], trace.stream[start].astype(np.int64), site, freed)


def active(blocks: Blocks, events: int) -> I64:
    """Active bytes after every event."""
    change = np.zeros(events + 1, dtype=np.int64)
    np.add.at(change, blocks.start, blocks.rounded)
    np.subtract.at(change, blocks.end, blocks.rounded)
    total: I64 = np.cumsum(change[:events])
    return total


def reserved(memory_map: MemoryMap, events: int) -> I64:
    """Reserved bytes at every event: the most that were held while it was served."""
    level = np.cumsum(memory_map.held[:, 2])
    at = memory_map.held[:, 0]
    first = np.flatnonzero(np.diff(at, prepend=-1))
    if not len(first):
        return np.zeros(events, dtype=np.int64)
    highest = np.maximum.reduceat(level, first)
    last = level[np.append(first[1:], len(level)) - 1]
    known = np.repeat(np.append(0, last), np.diff(np.concatenate(([0], at[first], [max(events, int(at[-1]) + 1)]))))
    known[at[first]] = highest
    return known[:events]


def held_spans(memory_map: MemoryMap, events: int) -> I64:
    """Rows of begin, end, place, size: physical memory from when it was taken until it was given back."""
    # By place, where taking and giving take turns.
    rows = memory_map.held[np.argsort(memory_map.held[:, 1], kind="stable")]
    taken = np.flatnonzero(rows[:, 2] > 0)
    after = np.append(rows, [[events, -1, 0]], axis=0)[taken + 1]
    end = np.where(after[:, 1] == rows[taken, 1], after[:, 0], events)
    spans = np.stack([rows[taken, 0], end, rows[taken, 1], rows[taken, 2]], axis=1)
    return spans[np.argsort(spans[:, 0], kind="stable")]


def peak_event(active_bytes: I64) -> int:
    """Where active memory is highest, the first time."""
    return int(np.argmax(active_bytes)) if len(active_bytes) else 0


def live_groups(trace: Trace, blocks: Blocks, event: int) -> list[Group]:
    """What is live after an event, by call site where they are known and else by size; largest first."""
    live = blocks.live(event)
    size = blocks.rounded[live]
    if blocks.site is not None and trace.call_sites is not None:
        names = [*sites.labels(trace.call_sites), UNKNOWN_SITE]
        return _grouped([names[site] for site in blocks.site[live]], size)
    return _grouped([class_name(number) for number in size_class(blocks.size[live]).tolist()], size)


def _grouped(names: Sequence[str], size: I64) -> list[Group]:
    if not len(size):
        return []
    unique, member = np.unique(np.array(names, dtype=object), return_inverse=True)
    count, total = np.bincount(member), np.bincount(member, weights=size)
    groups = [Group(str(unique[i]), int(count[i]), int(total[i])) for i in range(len(unique))]
    return sorted(groups, key=lambda group: (-group.bytes, group.name))


def size_class(size: I64) -> I64:
    """The power of two above: class 0 holds up to 512 bytes, class n up to 512 << n."""
    steps = np.maximum(-(-size // _STEP), 1)
    classes: I64 = np.ceil(np.log2(steps)).astype(np.int64)
    return classes


def class_name(number: int) -> str:
    """A size class in words, as in: 16 to 32 MiB."""
    if number == 0:
        return "up to 512 B"
    return f"{_short(_STEP << (number - 1), number)} to {_short(_STEP << number, None)}"


def _short(value: int, beside: int | None) -> str:
    """A power of two; without its unit if what stands beside it has the same."""
    power = min((value.bit_length() - 1) // 10, 5)
    unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[power]
    same = beside is not None and min((_STEP << beside).bit_length() - 1, 59) // 10 == power
    return str(value >> 10 * power) if same else f"{value >> 10 * power} {unit}"


def size_histogram(blocks: Blocks) -> Histogram:
    """All blocks by size class."""
    return _histogram(size_class(blocks.size), blocks, class_name)


def lifetime_histogram(blocks: Blocks) -> Histogram:
    """All blocks by the events they live, in powers of two; the last class is of those that are never freed."""
    lives = np.maximum(blocks.end - blocks.start, 1)
    classes = np.ceil(np.log2(lives)).astype(np.int64)
    longest = int(classes[blocks.freed].max(initial=-1))
    classes[~blocks.freed] = longest + 1

    def name(number: int) -> str:
        if number > longest:
            return "not freed"
        return "1" if number == 0 else f"{(1 << number - 1) + 1:,} to {1 << number:,}" if number > 1 else "2"

    return _histogram(classes, blocks, name)


def _histogram(classes: I64, blocks: Blocks, name: Callable[[int], str]) -> Histogram:
    length = int(classes.max(initial=-1)) + 1
    count = np.bincount(classes, minlength=length).astype(np.int64)
    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, classes, blocks.rounded)
    return Histogram(tuple(name(number) for number in range(length)), count, total)
