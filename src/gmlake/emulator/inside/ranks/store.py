"""A key-value store that answers as if every rank had arrived and had written what this one wrote.

It stands in for TCPStore, FileStore and HashStore, by whatever way a program comes to one: env://, tcp://, file://, or
a store of its own. Nothing is sent anywhere, no port is opened and no file is written.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed
from torch._C import _distributed_c10d as c10d

_WHO_IS_FIRST = 128  # bytes of an ncclUniqueId
_NUMBER = re.compile(r"\d+")
_alive: list[Any] = []  # PyTorch keeps only the native half of a store alive


class Store(c10d.Store):  # type: ignore[misc]
    """The values of this rank, and the answers of the others."""

    world_size = 1
    rank = 0

    def __init__(self) -> None:
        """Empty."""
        super().__init__()
        self._lock = threading.RLock()
        self._values: dict[str, bytes] = {}
        self._queues: dict[str, list[bytes]] = {}
        self._timeout = timedelta(minutes=30)
        _alive.append(self)

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        with self._lock:
            self._values[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        """The value, or what another rank would have put there."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                found = self._of_a_peer(key)
        if found is None:
            raise torch.distributed.DistStoreError(
                f"only another rank would write the key {key!r} of the store, and this process stands for "
                f"rank {self.rank} of {self.world_size} alone (gmlake run --world-size)"
            )
        return found

    def add(self, key: str, amount: int) -> int:
        """Every rank adds the same."""
        with self._lock:
            total = int(self._values.get(key, b"0")) + amount * self.world_size
            self._values[key] = str(total).encode()
            return total

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        with self._lock:
            self._values[key] = self._values.get(key, b"") + _bytes(value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Replace a value that is as expected; an empty one is expected where there is none."""
        with self._lock:
            if self._values.get(key, b"") == _bytes(expected):
                self._values[key] = _bytes(desired)
            return self._values.get(key, _bytes(expected))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of them were written: by this rank, because nobody announces trouble on behalf of others."""
        with self._lock:
            return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """The others have been there already."""

    def delete_key(self, key: str) -> bool:
        """Forget a value; says whether there was one."""
        with self._lock:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many values there are."""
        with self._lock:
            return len(self._values)

    def list_keys(self) -> list[str]:
        """Their keys."""
        with self._lock:
            return list(self._values)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Append and the calls with many keys are there."""
        return True

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Add to the end of a queue."""
        with self._lock:
            self._queues.setdefault(key, []).append(_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take from the beginning of a queue."""
        with self._lock:
            if not self._queues.get(key):
                raise torch.distributed.QueueEmptyError(f"the queue {key!r} is empty, and nobody else will fill it")
            return self._queues[key].pop(0)

    def queue_len(self, key: str) -> int:
        """The length of a queue."""
        with self._lock:
            return len(self._queues.get(key, []))

    def clone(self) -> Store:
        """The same values, seen from another thread."""
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """Nothing takes any time."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """What was set."""
        return self._timeout

    def _of_a_peer(self, key: str) -> bytes | None:
        # NCCL asks for the id that the first rank of a group made; ours does not look at it.
        if "cuda//" in key:
            return bytes(_WHO_IS_FIRST)
        # Keys with a rank in them: the others wrote what this rank wrote under its own.
        for number in _NUMBER.finditer(key):
            if int(number[0]) < self.world_size:
                own = self._values.get(f"{key[: number.start()]}{self.rank}{key[number.end() :]}")
                if own is not None:
                    return own
        return None


class TCPStore(Store):
    """Looks like a server or a client of one; is neither."""

    def __init__(
        self, host_name: str = "localhost", port: int = 0, world_size: int | None = None, *_: object, **__: object
    ) -> None:
        """As PyTorch's own."""
        super().__init__()
        self.host = host_name
        self.port = port
        self.libuvBackend = True


class FileStore(Store):
    """Looks like a file that all ranks share; writes none."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        """As PyTorch's own."""
        super().__init__()
        self.path = file_name


class HashStore(Store):
    """The ranks of a job would be threads of this process; they are not there either."""


def install(world_size: int, rank: int) -> None:
    """Put our stores in the place of PyTorch's, under every name a program may use."""
    Store.world_size, Store.rank = world_size, rank
    # As an attribute of torch.distributed, `rendezvous` is the function of this name.
    modules = ("torch.distributed", "torch.distributed.rendezvous", "torch.distributed.distributed_c10d")
    for store in (TCPStore, FileStore, HashStore):
        for module in (c10d, *(sys.modules.get(name) for name in modules)):
            if hasattr(module, store.__name__):
                setattr(module, store.__name__, store)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
