"""The events of a snapshot's history as columns, read part by part.

A recording need not keep all of its events as PyTorch makes them, which takes many times the memory: it
reads what there is from time to time, and forgets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmlake.trace.building import Rows, whole_numbers
from gmlake.trace.errors import TraceError
from gmlake.trace.formats.pools import Pools
from gmlake.trace.formats.sites import SiteTable
from gmlake.trace.trace import I64, U8, Kind

ALLOC, REQUESTED, COMPLETED, OTHER = range(4)
_CODES = {"alloc": ALLOC, "free_requested": REQUESTED, "free_completed": COMPLETED}


@dataclass(frozen=True)
class Part:
    """Some events in a row, as columns."""

    code: I64  # of the client's events
    rows: Rows  # the same ones


@dataclass
class Parts:
    """The events of one device, part by part."""

    device: int
    pools: Pools = field(default_factory=Pools)
    sites: SiteTable = field(default_factory=SiteTable)
    _parts: list[Part] = field(default_factory=list)

    def add(self, events: list[Any]) -> None:
        """The next events, as PyTorch describes them."""
        if not all(isinstance(event, dict) for event in events):
            raise TraceError(f"has events of device {self.device} that are not dicts")
        actions = [event.get("action") for event in events]
        if not all(isinstance(action, str) for action in actions):
            raise TraceError(f"has events of device {self.device} without an action")
        code = np.array([_CODES.get(action, OTHER) for action in actions], dtype=np.int64)
        of_client = np.flatnonzero(code <= COMPLETED)
        rows = _rows([events[index] for index in of_client], code[of_client], self.pools, self.sites)
        self._parts.append(Part(code[of_client], rows))
        self.sites.forget_objects()

    def joined(self) -> Part:
        """All events."""
        parts = [part for part in self._parts if len(part.rows)]
        if not parts:
            raise TraceError(f"has a history of device {self.device} in which nothing is allocated or freed")
        return Part(
            np.concatenate([part.code for part in parts]),
            Rows.join(*(part.rows for part in parts)),
        )


def _rows(events: list[dict[str, Any]], code: I64, pools: Pools, sites: SiteTable) -> Rows:
    address = whole_numbers([event.get("addr") for event in events], "'addr' of the events")
    kind: U8 = np.where(code == ALLOC, Kind.ALLOCATE, Kind.FREE).astype(np.uint8)
    times = None
    if all("time_us" in event for event in events):
        times = whole_numbers([event["time_us"] for event in events], "'time_us' of the events")
    pool = None
    if any("pool_id" in event for event in events):
        pool = np.array([pools.number(event.get("pool_id")) for event in events], dtype=np.int64)
    made = (code == ALLOC).tolist()
    site = [sites.number(event.get("frames")) if is_made else -1 for event, is_made in zip(events, made, strict=True)]
    return Rows(
        kind,
        address.astype(np.uint64),
        whole_numbers([event.get("size") for event in events], "'size' of the events"),
        whole_numbers([event.get("stream", 0) for event in events], "'stream' of the events"),
        pool,
        np.array(site, dtype=np.int32),
        times,
    )
