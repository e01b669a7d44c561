"""What the driver knows of blocks: the physical memory behind addresses, and how far streams are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gmlake._core import SimulatedDriver, Status
from tests.baselines.bench import Bench

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
PAGE = 2 * MIB


class Piece(NamedTuple):
    """A part of one handle's memory."""

    handle: int
    start: int
    end: int

    def meets(self, other: Piece) -> bool:
        """Do the two share a byte?"""
        return self.handle == other.handle and self.start < other.end and other.start < self.end


def physical(driver: SimulatedDriver, address: int, size: int) -> list[Piece]:
    """The memory behind a span of addresses."""
    pieces: list[Piece] = []
    at, end = address, address + size
    while at < end:
        handle, offset = driver.handle_at(at), driver.offset_at(at)
        assert handle != 0, f"nothing is mapped at {at:#x}"
        until = at // PAGE * PAGE + PAGE
        while until < end and (driver.handle_at(until), driver.offset_at(until)) == (handle, offset + until - at):
            until += PAGE
        until = min(until, end)
        pieces.append(Piece(handle, offset, offset + until - at))
        at = until
    return pieces


def overlap(some: Iterable[Piece], others: Iterable[Piece]) -> bool:
    """Do they share memory, under whatever addresses?"""
    known = list(others)
    return any(piece.meets(other) for piece in some for other in known)


class Mark:
    """A point on a stream: everything issued before it."""

    def __init__(self, driver: SimulatedDriver, stream: int) -> None:
        self.driver = driver
        status, self.event = driver.create_event()
        assert status is Status.success
        assert driver.record(self.event, stream) is Status.success

    @property
    def reached(self) -> bool:
        """Has the work before it finished?"""
        return self.driver.query(self.event) is Status.success

    def forget(self) -> None:
        """Give the event back, so that the allocator's own can be counted."""
        assert self.driver.destroy_event(self.event) is Status.success


class Lake(Bench):
    """Our allocator on a simulated device, with further words for what scenarios do."""

    def __init__(self, options: str = "", *, capacity: int | None = None, limit: int | None = None) -> None:
        super().__init__(f"gmlake:{options}" if options else "gmlake", capacity)
        if limit is not None:
            self.allocator.set_limit(limit)

    def take(self, size: int, stream: int = 0) -> int:
        """Allocate, and check that the block is whole."""
        address = super().take(size, stream)
        assert address % 512 == 0
        assert self.driver.accessible(address, size)
        return address

    def memory_calls(self) -> int:
        """Calls that create, map or give back memory so far."""
        order = {"create_event", "destroy_event", "record", "query", "wait", "synchronize"}
        return sum(calls for kind, (calls, _) in self.driver.counts().items() if kind not in order)

    def physical(self, address: int, size: int) -> list[Piece]:
        """The memory behind a block."""
        return physical(self.driver, address, size)

    def assert_empty(self) -> None:
        """The driver holds no memory of ours."""
        driver = self.driver
        assert (driver.physical_bytes, driver.handles, driver.mappings) == (0, 0, 0)
