"""Feeds the history of the real PyTorch to a rival, and compares the bytes that both have reserved after every event.

A block that other streams use is freed (free_requested) some time before it is free (free_completed). The rival gets it
back at the first, with a use by a stream that is held until the second. If PyTorch waited for the use because memory
ran short, it is not ended here: the rival must come to wait for it as well.

Segments are the allocators' own business: PyTorch's events about them only say how much it has reserved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gmlake._core import OutOfMemory, SimulatedDriver, make_allocator

MIB = 1 << 20
FIRST_USER = 1 << 50  # no handle of a stream is as large
Event = dict[str, Any]
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


@dataclass
class Difference:
    program: str
    index: int
    event: Event
    theirs: int
    ours: int


@dataclass
class Comparison:
    """What was compared, and where the two differ."""

    compared: dict[str, int] = field(default_factory=dict)  # events by program
    differences: list[Difference] = field(default_factory=list)
    ours: int = 0  # peak
    theirs: int = 0
    retries: int = 0
    failures: int = 0


def ranges(events: Sequence[Event], device: int) -> list[int]:
    """Where the ranges of PyTorch's expandable segments lie, in the order of their use, from what was mapped there.

    Of two ranges the lower one grows first, so that the driver's choice of addresses decides what is reserved.
    """
    length = device + device // 8 + 20 * MIB
    mapped: dict[int, int] = {}  # bytes, by the range's address
    found = []
    for event in events:
        if event["action"] not in ("segment_map", "segment_unmap"):
            continue
        base = next((base for base in mapped if base <= event["addr"] < base + length), None)
        if base is None:
            base = event["addr"]
            found.append(base)
        mapped[base] = mapped.get(base, 0) + _RESERVED[event["action"]] * event["size"]
        if mapped[base] == 0:
            del mapped[base]
    return found


class Feeder:
    def __init__(self, spec: str, recorded: dict[str, Any]) -> None:
        self.events: Sequence[Event] = recorded["events"]
        self.notes: list[tuple[str, int, int]] = [tuple(note) for note in recorded["notes"]]
        self.driver = SimulatedDriver(capacity=recorded["free"], cost_table="free")
        self.allocator = make_allocator(spec, self.driver)
        self.driver.hand_out_ranges(ranges(self.events, recorded["free"]))
        self.where: dict[int, int] = {}  # PyTorch's address -> ours
        self.used: dict[int, int] = {}  # PyTorch's address -> the stream that uses what was freed there
        self.users: list[int] = []
        self.uses: dict[tuple[int, int], int] = {}  # begins of private pools
        self.program = ""
        self.result = Comparison()

    def run(self) -> Comparison:
        theirs = made = freed = 0
        for index, event in enumerate(self.events):
            action = event["action"]
            changes = action in ("alloc", "free_requested", "segment_alloc", "segment_map", "oom")
            for note in self.due(made, freed, trims=changes or action in _RESERVED):
                self.act(note)
            theirs += _RESERVED.get(action, 0) * event["size"]
            self.result.theirs = max(self.result.theirs, theirs)
            if action == "alloc":
                made += 1
                self.allocate(event)
            elif action == "free_requested":
                freed += 1
                self.free(index, event)
            elif action == "free_completed":
                self.complete(index, event)
            elif action == "oom":
                self.fail(event)
            # Uses end in the middle of a request, and what PyTorch has reserved changes before and after that.
            if action in ("alloc", "free_requested", "oom"):
                self.compare(index, event, theirs)
        for note in self.due(made, freed, trims=True):
            self.act(note)
        self.compare(len(self.events), {"action": "end"}, theirs)
        self.allocator.check()
        statistics = self.allocator.statistics()
        self.result.ours = statistics["reserved_bytes"]["all"]["peak"]
        self.result.retries = statistics["num_alloc_retries"]
        return self.result

    def due(self, made: int, freed: int, trims: bool) -> Iterator[str]:
        """Notes whose time has come. A trim waits: first the events that it waits for complete."""
        while self.notes and self.notes[0][1:] <= (made, freed) and (trims or self.notes[0][0] != "trim"):
            yield self.notes.pop(0)[0]

    def act(self, note: str) -> None:
        word, *rest = note.split()
        if word == "program":
            self.program = rest[0]
        elif word == "trim":
            self.allocator.trim()
        elif word == "release":
            pool = (int(rest[0]), int(rest[1]))
            for _ in range(self.uses.pop(pool)):
                self.allocator.release_pool(pool)

    def allocate(self, event: Event) -> None:
        pool = tuple(event["pool_id"])
        if any(pool):
            self.allocator.begin_pool(pool)
            self.uses[pool] = self.uses.get(pool, 0) + 1
        self.where[event["addr"]] = self.allocator.allocate(event["size"], event["stream"])
        if any(pool):
            self.allocator.end_pool(pool)

    def free(self, index: int, event: Event) -> None:
        address = self.where.pop(event["addr"])
        follows = self.events[index + 1] if index + 1 < len(self.events) else {}
        if (follows.get("action"), follows.get("addr")) != ("free_completed", event["addr"]):
            user = FIRST_USER + len(self.users)
            self.driver.hold(user)
            self.allocator.record_stream(address, user)
            self.users.append(user)
            self.used[event["addr"]] = user
        self.allocator.release(address)

    def complete(self, index: int, event: Event) -> None:
        user = self.used.pop(event["addr"], None)
        if user is not None and not self.memory_is_short(index):
            self.driver.finish(user)

    def memory_is_short(self, index: int) -> bool:
        """Does PyTorch give memory back before it next serves or frees anything?"""
        for event in self.events[index + 1 :]:
            if event["action"] in ("segment_free", "segment_unmap", "oom"):
                return True
            if event["action"] in ("alloc", "free_requested"):
                return False
        return False

    def fail(self, event: Event) -> None:
        """PyTorch could not serve this, so the rival must not either."""
        self.result.failures += 1
        try:
            self.allocator.release(self.allocator.allocate(event["size"], event["stream"]))
        except OutOfMemory:
            return
        self.result.differences.append(Difference(self.program, -1, event, -1, 0))

    def compare(self, index: int, event: Event, theirs: int) -> None:
        self.result.compared[self.program] = self.result.compared.get(self.program, 0) + 1
        ours = self.driver.physical_bytes
        if ours != theirs:
            self.result.differences.append(Difference(self.program, index, event, theirs, ours))
