"""The trace in memory: four numpy columns, one row per event, and what is known about where they came from.

Allocations are numbered 0, 1, 2, ... in the order in which they are made, streams 0, 1, 2, ... in the order
of their handles, iterations and private pools likewise: whatever a file calls them, a trace is always written
in these numbers (`gmlake.trace.building` does the numbering, `gmlake.trace.validation` checks it). Nothing
here knows a file format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

MarksFrom = Literal["recorded", "periodicity", "none"]

# Limits that no real trace meets; they keep a hostile file from claiming more memory or time than there is.
MAX_EVENTS = 1 << 26
MAX_SIZE = 1 << 44  # 16 TiB, of a request and of all that is live at once: replays keep a note of every 2 MiB of it
MAX_DEVICES = 1024
MAX_POOLS = 4096
MAX_OPEN_POOLS = 1024


class Kind(IntEnum):
    """What an event does; the number is what the column `kind` holds."""

    ALLOCATE = 0
    FREE = 1
    ITERATION = 2
    RECORD_STREAM = 3
    BEGIN_POOL = 4
    END_POOL = 5
    RELEASE_POOL = 6
    TRIM = 7


class Frame(NamedTuple):
    """One line of a call stack."""

    filename: str
    line: int
    name: str


@dataclass(frozen=True)
class CallSites:
    """Call stacks without repetition: site s is `stacks[s]`, indices into `frames`, innermost first."""

    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]

    def stack(self, site: int) -> tuple[Frame, ...]:
        """The frames of a call site, innermost first."""
        return tuple(self.frames[index] for index in self.stacks[site])


@dataclass(frozen=True, eq=False)
class Trace:
    """A sequence of allocation events of one device.

    `id` is the allocation for ALLOCATE, FREE and RECORD_STREAM, the iteration for ITERATION, the pool for the
    pool events and 0 for TRIM. `size` is the requested bytes of an ALLOCATE and 0 elsewhere. `stream` is the
    stream of the allocation, the using stream for RECORD_STREAM and 0 where it means nothing.
    """

    kind: U8
    id: U32
    size: I64
    stream: U32
    name: str = ""
    source: str = ""  # the format it was read from
    device: int = 0
    other_devices: tuple[int, ...] = ()  # of the same file, if nobody said which to take
    streams: tuple[int, ...] = (0,)  # the handle of every stream number
    pools: tuple[tuple[int, int], ...] = ()  # PyTorch's id of every pool number
    marks_from: MarksFrom = "none"
    initial: int = 0  # so many events at the beginning only rebuild what was live when the history began
    site: I32 | None = None  # call site of an ALLOCATE, -1 if unknown
    call_sites: CallSites | None = None
    time_us: I64 | None = None

    def __len__(self) -> int:
        """The number of events."""
        return len(self.kind)

    @property
    def allocations(self) -> int:
        """The number of ALLOCATE events."""
        return int(np.count_nonzero(self.kind == Kind.ALLOCATE))

    @property
    def marks(self) -> I64:
        """Where iterations start, as event indices; as the last event: where the last one ends."""
        return np.flatnonzero(self.kind == Kind.ITERATION)

    @property
    def iterations(self) -> int:
        """The number of iterations, as a replay counts them: a mark that is the last event starts none."""
        return int(np.count_nonzero(self.kind[:-1] == Kind.ITERATION))

    def live_bytes(self) -> I64:
        """Requested bytes that are live after every event."""
        change = np.where(self.kind == Kind.ALLOCATE, self.size, 0)
        freed = self.kind == Kind.FREE
        change[freed] = -self.size[self.kind == Kind.ALLOCATE][self.id[freed]]
        return np.cumsum(change)

    def select(self, rows: npt.NDArray[Any], **changes: Any) -> Trace:
        """The same trace with only these rows, in this order; ids are left as they are."""
        return replace(
            self,
            kind=self.kind[rows],
            id=self.id[rows],
            size=self.size[rows],
            stream=self.stream[rows],
            site=None if self.site is None else self.site[rows],
            time_us=None if self.time_us is None else self.time_us[rows],
            **changes,
        )
