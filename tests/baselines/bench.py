"""An allocator on a simulated driver of its own, with short words for what scenarios do."""

from __future__ import annotations

from gmlake._core import Allocator, SegmentInfo, SimulatedDriver, make_allocator

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Bench:
    """One allocator, its driver and what the client holds."""

    def __init__(self, spec: str, capacity: int | None = None) -> None:
        self.driver = SimulatedDriver(capacity=capacity)
        self.allocator: Allocator = make_allocator(spec, self.driver)

    def take(self, size: int, stream: int = 0) -> int:
        """Allocate, and check the books."""
        address = self.allocator.allocate(size, stream)
        self.allocator.check()
        return address

    def give(self, *addresses: int) -> None:
        """Release, and check the books."""
        for address in addresses:
            self.allocator.release(address)
            self.allocator.check()

    def stat(self, name: str, pool: str = "all", what: str = "current") -> int:
        """One of PyTorch's statistics."""
        value: int = self.allocator.statistics()[name][pool][what]
        return value

    def count(self, name: str) -> int:
        """One of the plain counters."""
        value: int = self.allocator.statistics()[name]
        return value

    def own(self, name: str) -> int:
        """One of the counters that PyTorch does not have; the current value of those that go up and down."""
        value = self.allocator.statistics()["gmlake"][name]
        counter: int = value["current"] if isinstance(value, dict) else value
        return counter

    @property
    def reserved(self) -> int:
        """Bytes held of the driver."""
        return self.stat("reserved_bytes")

    def segment_of(self, address: int) -> SegmentInfo:
        """The segment that an address is in."""
        for segment in self.allocator.segments():
            if segment.address <= address < segment.address + segment.size:
                return segment
        raise AssertionError(f"{address:#x} is in no segment")

    def block_size(self, address: int) -> int:
        """The size of the block at an address."""
        return next(b.size for b in self.segment_of(address).blocks if b.address == address)

    def calls(self, kind: str) -> int:
        """Calls of one kind so far."""
        return self.driver.counts()[kind][0]
