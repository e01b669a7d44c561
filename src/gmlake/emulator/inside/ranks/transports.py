"""How pickled objects get from rank to rank without the device: by assumption, or through the group's store."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Protocol

import torch.distributed.distributed_c10d as c10d


class Transport(Protocol):
    """Ranks are those of the group."""

    def gather(self, group: Any, data: bytes, to: int | None) -> list[bytes]:
        """What every rank hands in, for the rank `to` or for all."""

    def spread(self, group: Any, data: list[bytes] | None, source: int) -> bytes | None:
        """The source has one for each rank; this rank's, or None if nobody knows."""

    def send(self, group: Any, data: bytes, to: int) -> None:
        """On its way."""

    def receive(self, group: Any, source: int | None) -> tuple[bytes | None, int]:
        """What comes, or None if nobody knows, and from whom."""


class Symmetric:
    """Every other rank hands in the same as this one; what only another rank has is unknown."""

    def __init__(self) -> None:
        """Nothing under way."""
        self._sent: list[bytes] = []

    def gather(self, group: Any, data: bytes, to: int | None) -> list[bytes]:
        """So many times the same."""
        return [data] * int(c10d.get_world_size(group))

    def spread(self, group: Any, data: list[bytes] | None, source: int) -> bytes | None:
        """Known to the source alone."""
        rank = int(c10d.get_rank(group))
        return data[rank] if data is not None and rank == source else None

    def send(self, group: Any, data: bytes, to: int) -> None:
        """Kept for a receive of ours."""
        self._sent.append(data)
        del self._sent[:-256]

    def receive(self, group: Any, source: int | None) -> tuple[bytes | None, int]:
        """What we sent first."""
        return (self._sent.pop(0) if self._sent else None), source or 0


class Stored:
    """Through the key-value store of the group, to which every rank is connected already."""

    def __init__(self) -> None:
        """Nothing under way."""
        self._calls: dict[tuple[str, str], int] = defaultdict(int)  # by group and kind, the same on all ranks

    def gather(self, group: Any, data: bytes, to: int | None) -> list[bytes]:
        """Everybody writes under its rank; the last reader clears away."""
        store, key = self._next(group, "gather")
        rank, ranks = int(c10d.get_rank(group)), int(c10d.get_world_size(group))
        store.set(f"{key}/{rank}", data)
        if to is not None and rank != to:
            return []
        found = [bytes(store.get(f"{key}/{number}")) for number in range(ranks)]
        if to is not None or store.add(f"{key}/readers", 1) == ranks:
            _clear(store, [f"{key}/{number}" for number in range(ranks)] + [f"{key}/readers"])
        return found

    def spread(self, group: Any, data: list[bytes] | None, source: int) -> bytes | None:
        """The source writes one for each rank; its reader clears it away."""
        store, key = self._next(group, "spread")
        rank = int(c10d.get_rank(group))
        if rank == source and data is not None:
            for number, one in enumerate(data):
                if number != source:
                    store.set(f"{key}/{number}", one)
            return data[rank]
        found = bytes(store.get(f"{key}/{rank}"))
        _clear(store, [f"{key}/{rank}"])
        return found

    def send(self, group: Any, data: bytes, to: int) -> None:
        """Numbered by sender and receiver."""
        store, key = self._next(group, f"{c10d.get_rank(group)}-{to}")
        store.set(key, data)

    def receive(self, group: Any, source: int | None) -> tuple[bytes | None, int]:
        """In the order of sending."""
        if source is None:
            raise RuntimeError("objects are received from a rank that is named; src is missing")
        store, key = self._next(group, f"{source}-{c10d.get_rank(group)}")
        found = bytes(store.get(key))
        _clear(store, [key])
        return found, source

    def _next(self, group: Any, kind: str) -> tuple[Any, str]:
        group = group or c10d._get_default_group()
        name = (str(group.group_name), kind)
        self._calls[name] += 1
        return c10d._get_process_group_store(group), f"gmlake/{kind}/{self._calls[name]}"


def _clear(store: Any, keys: list[str]) -> None:
    for key in keys:
        try:
            store.delete_key(key)
        except RuntimeError:  # a store that cannot
            return
