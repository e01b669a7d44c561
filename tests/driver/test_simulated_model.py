"""The simulated driver against a model too simple to be wrong: dictionaries, searched from the start."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gmlake._core import SimulatedDriver, Status

GRANULE = 512
SPACE = 24  # granules of addresses
CAPACITY = 16  # granules of memory

offsets = st.integers(0, SPACE - 1)
lengths = st.integers(0, 6)
picks = st.integers(0, 1 << 16)


@dataclass
class Model:
    """Addresses and sizes are in granules, from the start of the space."""

    ranges: dict[int, int] = field(default_factory=dict)
    handles: dict[int, int] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)
    mappings: dict[int, tuple[int, int]] = field(default_factory=dict)  # start -> length, handle
    granted: set[int] = field(default_factory=set)

    def used(self) -> int:
        """Granules of memory that exist: handles not released, or still mapped."""
        mapped = {handle for _, handle in self.mappings.values()}
        return sum(size for handle, size in self.handles.items() if handle not in self.released or handle in mapped)

    def alive(self) -> set[int]:
        """Handles whose memory exists: not released, or still mapped."""
        return (set(self.handles) - self.released) | {handle for _, handle in self.mappings.values()}

    def first_hole(self, length: int) -> int | None:
        taken = {at + i for at, size in self.ranges.items() for i in range(size)}
        return next((at for at in range(SPACE - length + 1) if not taken & set(range(at, at + length))), None)

    def in_range(self, at: int, length: int) -> bool:
        return any(start <= at and at + length <= start + size for start, size in self.ranges.items())

    def overlapping(self, at: int, length: int) -> list[int]:
        return [start for start, (size, _) in self.mappings.items() if start < at + length and at < start + size]

    def whole(self, at: int, length: int) -> bool:
        covered = sum(self.mappings[start][0] for start in self.overlapping(at, length))
        inside = all(at <= s and s + self.mappings[s][0] <= at + length for s in self.overlapping(at, length))
        return length > 0 and inside and covered == length and self.in_range(at, length)


class DriverAgainstModel(RuleBasedStateMachine):
    """Random calls, sensible and not; every status and every address must be what the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = SimulatedDriver(capacity=CAPACITY * GRANULE, granularity=GRANULE, address_space=SPACE * GRANULE)
        self.model = Model()
        _, self.base = self.driver.reserve(GRANULE)
        assert self.driver.free_range(self.base, GRANULE) == Status.success

    def address(self, at: int) -> int:
        return self.base + at * GRANULE

    def expect(self, status: Status, good: bool, otherwise: Status = Status.invalid_value) -> bool:
        assert status == (Status.success if good else otherwise)
        return good

    @rule(length=lengths)
    def reserve(self, length: int) -> None:
        status, at = self.driver.reserve(length * GRANULE)
        hole = self.model.first_hole(length) if length else None
        if self.expect(status, hole is not None, Status.out_of_memory if length else Status.invalid_value):
            assert hole is not None
            assert at == self.address(hole)
            self.model.ranges[hole] = length

    @rule(pick=picks, error=st.sampled_from([0, 0, 0, 1]))
    def free_range(self, pick: int, error: int) -> None:
        if not self.model.ranges:
            return
        at = sorted(self.model.ranges)[pick % len(self.model.ranges)]
        length = self.model.ranges[at]
        status = self.driver.free_range(self.address(at), (length + error) * GRANULE)
        if self.expect(status, error == 0 and not self.model.overlapping(at, length)):
            del self.model.ranges[at]

    @rule(length=lengths)
    def create(self, length: int) -> None:
        status, handle = self.driver.create(length * GRANULE)
        fits = self.model.used() + length <= CAPACITY
        if self.expect(status, length > 0 and fits, Status.out_of_memory if length else Status.invalid_value):
            assert handle not in self.model.handles
            self.model.handles[handle] = length

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        if not self.model.handles:
            return
        handle = sorted(self.model.handles)[pick % len(self.model.handles)]
        if self.expect(self.driver.release(handle), handle not in self.model.released):
            self.model.released.add(handle)

    @rule(pick=picks, at=offsets, error=st.sampled_from([0, 0, 0, 1]))
    def map(self, pick: int, at: int, error: int) -> None:
        if not self.model.handles:
            return
        handle = sorted(self.model.handles)[pick % len(self.model.handles)]
        length = self.model.handles[handle] + error
        free = self.model.in_range(at, length) and not self.model.overlapping(at, length)
        status = self.driver.map(self.address(at), length * GRANULE, handle)
        if self.expect(status, error == 0 and free and handle not in self.model.released):
            self.model.mappings[at] = (length, handle)

    @rule(at=offsets, length=lengths)
    def unmap(self, at: int, length: int) -> None:
        before = self.driver.counts()["unmap"][0]
        status = self.driver.unmap(self.address(at), length * GRANULE)
        if self.expect(status, self.model.whole(at, length)):
            gone = self.model.overlapping(at, length)
            assert self.driver.counts()["unmap"][0] == before + len(gone)
            for start in gone:
                del self.model.mappings[start]
                self.model.granted.discard(start)

    @rule(at=offsets, length=lengths)
    def set_access(self, at: int, length: int) -> None:
        status = self.driver.set_access(self.address(at), length * GRANULE)
        if self.expect(status, self.model.whole(at, length)):
            self.model.granted |= set(self.model.overlapping(at, length))

    @invariant()
    def agree(self) -> None:
        assert self.driver.physical_bytes == self.model.used() * GRANULE
        assert self.driver.handles == len(self.model.alive())
        assert self.driver.mappings == len(self.model.mappings)
        assert self.driver.ranges == len(self.model.ranges)
        for at in range(SPACE):
            here = self.model.overlapping(at, 1)
            assert self.driver.handle_at(self.address(at)) == (self.model.mappings[here[0]][1] if here else 0)
            assert self.driver.accessible(self.address(at), GRANULE) == bool(set(here) & self.model.granted)


TestDriverAgainstModel = DriverAgainstModel.TestCase
TestDriverAgainstModel.settings = settings(max_examples=150, stateful_step_count=60)
