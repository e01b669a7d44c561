"""A client that remembers everything: who has which memory, and which work may still use it.

No two blocks share memory, under whatever addresses. No stream gets memory that another one may still be using, unless
it was made to wait. Nothing is unmapped under work that has not finished. How the allocator achieves it is not known.

Uses on other streams are announced (record_stream) or not. Those that are not the client orders itself, as late as it
may: a block's own stream is made to wait for them once the block was released and the stream gets memory again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .memory import Lake, Mark, Piece, overlap

Pool = tuple[int, int]


@dataclass
class Block:
    """A block in the client's hands."""

    size: int
    stream: int
    pieces: list[Piece]
    used_on: set[int] = field(default_factory=set)
    unannounced: set[int] = field(default_factory=set)


@dataclass
class Released:
    """A block that was given back, and for every stream that used it the point up to which it may."""

    address: int
    block: Block
    last_uses: dict[int, Mark]


class Client:
    """Uses a lake and never believes it."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.allocator, self.driver = lake.allocator, lake.driver
        self.live: dict[int, Block] = {}
        self.released: list[Released] = []
        self.open: list[Pool] = []
        self.uses: dict[Pool, int] = {}

    def allocate(self, size: int, stream: int) -> int:
        """A new block, which nobody else has or may be using."""
        address = self.allocator.allocate(size, stream)
        assert address not in self.live
        assert self.driver.accessible(address, size)
        self._keep_promises(stream)
        block = Block(size, stream, self.lake.physical(address, size))
        for other in self.live.values():
            assert not overlap(block.pieces, other.pieces), "two blocks share memory"
        self._assert_in_order(block)
        self.live[address] = block
        return address

    def _keep_promises(self, stream: int) -> None:
        for before in self.released:
            if before.block.stream == stream:
                for user in before.block.unannounced:
                    self.driver.wait(stream, before.last_uses[user].event)

    def _assert_in_order(self, block: Block) -> None:
        now = Mark(self.driver, block.stream)
        for before in self.released:
            if not overlap(block.pieces, before.block.pieces):
                continue
            for user, last_use in before.last_uses.items():
                if last_use.reached or user == block.stream == before.block.stream:
                    continue
                announced = before.block.used_on - {before.block.stream}
                assert user not in announced, f"memory was reused while stream {user} may still use it"
                assert not now.reached, f"stream {block.stream} does not wait for stream {user}"
        now.forget()

    def release(self, address: int) -> None:
        """Give a block back; work issued before may still use it."""
        block = self.live.pop(address)
        users = {block.stream} | block.used_on | block.unannounced
        last_uses = {user: Mark(self.driver, user) for user in users}
        self.released.append(Released(address, block, last_uses))
        self.allocator.release(address)

    def record_stream(self, address: int, stream: int) -> None:
        """Use a block on another stream, too."""
        self.allocator.record_stream(address, stream)
        self.live[address].used_on.add(stream)

    def use_silently(self, address: int, stream: int) -> None:
        """The same without a word to the allocator, which has heard of the stream, though."""
        self.allocator.release(self.allocator.allocate(1, stream))
        self.live[address].unannounced.add(stream)

    def begin_pool(self, pool: Pool, streams: set[int]) -> None:
        """Open a private pool, unless it is open."""
        if pool not in self.open:
            self.allocator.begin_pool(pool, streams)
            self.open.append(pool)
            self.uses[pool] = self.uses.get(pool, 0) + 1

    def end_pool(self) -> None:
        """Close the pool that was opened last."""
        if self.open:
            self.allocator.end_pool(self.open.pop())

    def release_pool(self, pool: Pool) -> None:
        """Take one use back, if there is one that has ended."""
        if pool not in self.open and self.uses.get(pool, 0) > 0:
            self.allocator.release_pool(pool)
            self.uses[pool] -= 1

    def verify(self) -> None:
        """What must hold at any time."""
        lake = self.lake
        self.allocator.check()
        assert self.driver.physical_bytes == lake.stat("reserved_bytes")
        shown = [block for segment in self.allocator.segments() for block in segment.blocks]
        waiting = sum(block.requested for block in shown if block.state == "active_pending_free")
        assert lake.stat("requested_bytes") == waiting + sum(block.size for block in self.live.values())
        assert lake.stat("allocated_bytes") <= lake.stat("active_bytes") <= lake.stat("reserved_bytes")
        assert lake.stat("allocation") == len(self.live)
        for address, block in self.live.items():
            assert self.driver.accessible(address, block.size)
            assert lake.physical(address, block.size) == block.pieces, "the memory of a block was exchanged"
        self.verify_released()

    def verify_released(self) -> None:
        """Nothing is unmapped under work that has not finished."""
        for before in list(self.released):
            if all(last_use.reached for last_use in before.last_uses.values()):
                self._forget(before)
            else:
                mapped = self.driver.accessible(before.address, before.block.size)
                assert mapped, f"{before.address:#x} was unmapped under work that uses it"

    def _forget(self, before: Released) -> None:
        for mark in before.last_uses.values():
            mark.forget()
        self.released.remove(before)

    def finish(self) -> None:
        """Give everything back: the driver holds no memory, and after the allocator nothing at all."""
        for address in list(self.live):
            self.release(address)
        while self.open:
            self.end_pool()
        for pool, uses in self.uses.items():
            for _ in range(uses):
                self.allocator.release_pool(pool)
        self.allocator.trim()
        self.allocator.check()
        self.lake.assert_empty()
        for before in list(self.released):
            self._forget(before)
        del self.allocator, self.lake.allocator
        assert (self.driver.ranges, self.driver.events) == (0, 0)
