"""What one replay of one trace on one allocator found; the objects of `gmlake replay --json`.

Driver calls come in two families that are counted apart. *Memory calls* (reserve, create, map, set_access,
unmap, release, free_range, allocate, free) take the driver's lock and may stall the device: they are what an
allocator saves. *Ordering calls* (record, query, wait, ...) follow from the program: record_stream obliges
every allocator to record events, they are asynchronous and take no such lock. `driver_calls`, `driver_ms` and
their warm variants mean memory calls.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from gmlake.output import readable

MEMORY_CALLS = (
    "reserve",
    "create",
    "map",
    "set_access",
    "unmap",
    "release",
    "free_range",
    "allocate",
    "free",
)
ORDERING_CALLS = ("record", "query", "wait", "synchronize", "create_event", "destroy_event")


@dataclass(frozen=True)
class AtSmallest:
    """How the run went at the smallest capacity that completes, and whether larger ones fail."""

    retries: int
    warm_driver_calls: float | None
    warm_driver_ms: float | None
    warm_ordering_ms: float | None
    fails_above: tuple[int, ...]  # probed capacities above the smallest that run out of memory


@dataclass(frozen=True)
class Result:
    """One trace on one allocator. Bytes unless the name says otherwise; `warm_` means per warm iteration.

    The warm values are None when the trace has no iterations or the run did not complete.
    """

    trace: str
    allocator: str
    events: int
    iterations: int
    peak_requested: int
    peak_active: int
    peak_reserved: int
    utilisation: float
    smallest_capacity: int | None
    retries: int
    out_of_memory: int | None
    driver_calls: dict[str, int]
    warm_driver_calls: float | None
    warm_driver_ms: float | None
    cpu_seconds: float

    out_of_memory_message: str | None
    fragmentation: float
    capacity: int | None
    driver_ms: float
    ordering_calls: dict[str, int]
    ordering_ms: float
    warm_ordering_calls: float | None
    warm_ordering_ms: float | None
    iteration_driver_calls: tuple[int, ...]
    iteration_driver_ms: tuple[float, ...]
    at_smallest_capacity: AtSmallest | None = None

    @property
    def completed(self) -> bool:
        """Whether the whole trace was served."""
        return self.out_of_memory is None

    @property
    def needs(self) -> int | None:
        """The memory this run needs: the smallest capacity if it was searched for, else peak reserved."""
        if self.at_smallest_capacity is not None:
            return self.smallest_capacity
        return self.peak_reserved if self.completed else None

    def to_json(self) -> dict[str, Any]:
        """The result as plain dicts, lists and numbers."""
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> Result:
        """The reverse of to_json; a ValueError of one sentence for anything else."""
        values = _checked(data, Result)
        if values["at_smallest_capacity"] is not None:
            values["at_smallest_capacity"] = AtSmallest(**_checked(values["at_smallest_capacity"], AtSmallest))
        return Result(**values)


def _checked(data: Any, kind: type[Result] | type[AtSmallest]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError("a result is not an object")
    values = {}
    for field in fields(kind):
        value = data.get(field.name)
        if isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, str):
            value = readable(value)
        if not _fits(value, str(field.type)):
            raise ValueError(f"'{field.name}' of a result is missing or impossible")
        values[field.name] = value
    return values


def _fits(value: Any, annotation: str) -> bool:
    """Whether a value of JSON is what a field of this type may hold."""
    if value is None:
        return annotation.endswith("| None")
    match annotation.removesuffix(" | None"):
        case "str":
            return isinstance(value, str)
        case "int":
            return isinstance(value, int) and 0 <= value < 2**63
        case "float":
            return isinstance(value, (int, float)) and abs(value) < 1e300
        case "dict[str, int]":
            return isinstance(value, dict) and all(_fits(item, "int") for item in value.values())
        case "tuple[int, ...]" | "tuple[float, ...]":
            return isinstance(value, tuple) and all(_fits(item, annotation[6:].partition(",")[0]) for item in value)
        case _:
            return isinstance(value, dict)
