"""From the rows of a file to a Trace: who frees what, dense numbers, nothing of size zero.

Files name an allocation by an address or by a number of their own, and may use the name again once it is
free. A row here is (kind, key, size, stream) with such a key; `build` follows every key through time and
numbers what it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gmlake.trace.errors import TraceError
from gmlake.trace.trace import I32, I64, MAX_EVENTS, MAX_SIZE, U8, U64, CallSites, Kind, MarksFrom, Trace
from gmlake.trace.validation import validate


@dataclass(frozen=True)
class Rows:
    """Events as a file has them; `key` names the allocation, or the pool by its number."""

    kind: U8
    key: U64
    size: I64
    stream: I64  # the handle
    pool: I64 | None = None  # of an allocation: its pool's number + 1, 0 for none
    site: I32 | None = None
    time_us: I64 | None = None

    def __len__(self) -> int:
        """The number of events."""
        return len(self.kind)

    def take(self, order: npt.NDArray[Any]) -> Rows:
        """These rows, in this order."""
        columns: dict[str, Any] = {}
        for field in fields(self):
            column = getattr(self, field.name)
            columns[field.name] = None if column is None else column[order]
        return Rows(**columns)

    @staticmethod
    def join(*parts: Rows) -> Rows:
        """Rows one after the other; a column that any part lacks is dropped."""
        columns: dict[str, Any] = {}
        for field in fields(Rows):
            pieces = [getattr(part, field.name) for part in parts]
            columns[field.name] = None if any(piece is None for piece in pieces) else np.concatenate(pieces)
        return Rows(**columns)


def whole_numbers(values: Sequence[Any] | npt.NDArray[Any], what: str) -> I64:
    """Values from a file as int64; anything but whole numbers of that size is an error."""
    top = 2**63 - 1
    # Looked at before numpy does, which would make a table of values that are lists.
    plain = isinstance(values, np.ndarray) or set(map(type, values)) <= {int, bool}
    array = np.asarray(values, dtype=None if len(values) else np.int64) if plain else np.empty((), object)
    fits = array.dtype.kind in "ib" or (array.dtype.kind == "u" and int(array.max()) <= top)
    if array.ndim == 1 and fits:
        return array.astype(np.int64)
    wrong = next((v for v in values if not isinstance(v, int | np.integer) or not -top <= int(v) <= top), None)
    raise TraceError(f"{what} holds {shown(wrong)}, expected whole numbers below 2**63")


def shown(value: object) -> str:
    """A value from a file for a message: short, and safe even if it is nested without end."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and abs(value) >= 1 << 256:
        return "a number of many digits"  # which Python may refuse to write
    if isinstance(value, str | int | float) or value is None:
        return repr(value)[:60]
    return f"a {type(value).__name__}"


def pair(kind: U8, key: U64) -> I64:
    """For every event, the index of the ALLOCATE it refers to: itself if it is one, -1 for other kinds.

    Raises TraceError for a free or a use of what is not live, and for an allocation of what is.
    """
    about = np.flatnonzero((kind == Kind.ALLOCATE) | (kind == Kind.FREE) | (kind == Kind.RECORD_STREAM))
    order = about[np.argsort(key[about], kind="stable")]  # grouped by key, each group in order of time
    kinds, keys = kind[order], key[order]
    position = np.arange(len(order))
    new_key = np.ones(len(order), dtype=bool)
    new_key[1:] = keys[1:] != keys[:-1]
    group = np.maximum.accumulate(np.where(new_key, position, 0)) if len(order) else position
    last_made = np.maximum.accumulate(np.where(kinds == Kind.ALLOCATE, position, -1)) if len(order) else position
    # The allocation an event can refer to was made before it; for an ALLOCATE, the previous one of its key.
    before = np.where(kinds == Kind.ALLOCATE, np.concatenate(([-1], last_made[:-1])), last_made)[: len(order)]
    known = before >= group
    frees = np.cumsum(kinds == Kind.FREE)
    earlier = frees - (kinds == Kind.FREE)
    live = known & (earlier == frees[before])
    wrong = np.where(kinds == Kind.ALLOCATE, live, ~live)
    if wrong.any():
        worst = int(np.argmin(np.where(wrong, order, np.iinfo(np.int64).max)))
        raise TraceError(_contradiction(int(order[worst]), int(kinds[worst]), int(keys[worst]), bool(known[worst])))
    made_by = np.full(len(kind), -1, dtype=np.int64)
    made_by[order] = order[last_made]
    return made_by


def _contradiction(event: int, kind: int, key: int, known: bool) -> str:
    name = f"id {key}" if key < 1 << 32 else f"address {key:#x}"
    if kind == Kind.ALLOCATE:
        return f"event {event} allocates {name}, which is live already"
    verb = "frees" if kind == Kind.FREE else "records a stream for"
    state = "is free already" if known else "was never allocated before it"
    return f"event {event} {verb} {name}, which {state}"


def check_events(count: int) -> None:
    """Refuse more events than a trace may have."""
    if count > MAX_EVENTS:
        raise TraceError(f"{count} events are more than the {MAX_EVENTS} that are supported")


def build(
    rows: Rows,
    *,
    name: str,
    source: str,
    device: int = 0,
    pools: tuple[tuple[int, int], ...] = (),
    marks_from: MarksFrom = "recorded",
    initial: int = 0,
    call_sites: CallSites | None = None,
) -> Trace:
    """A valid Trace from a file's rows; allocations of size zero disappear with all that refers to them."""
    check_events(len(rows))
    made_by = pair(rows.kind, rows.key)
    absurd = np.flatnonzero((rows.kind == Kind.ALLOCATE) & ((rows.size < 0) | (rows.size > MAX_SIZE)))
    if len(absurd):
        event = int(absurd[0])
        raise TraceError(f"event {event} allocates {rows.size[event]} bytes, expected 0 to {MAX_SIZE}")
    keep = (made_by < 0) | (rows.size[made_by] > 0)
    initial = int(np.count_nonzero(keep[:initial]))
    made_by = made_by[keep]
    made_by[made_by >= 0] -= np.cumsum(~keep)[made_by[made_by >= 0]]
    rows = rows.take(keep)

    made = rows.kind == Kind.ALLOCATE
    ids = np.where(made_by >= 0, (np.cumsum(made) - 1)[made_by], 0)
    is_mark = rows.kind == Kind.ITERATION
    ids[is_mark] = np.arange(np.count_nonzero(is_mark))
    of_pool = (rows.kind >= Kind.BEGIN_POOL) & (rows.kind <= Kind.RELEASE_POOL)
    ids[of_pool] = rows.key[of_pool]
    handle = np.where(made_by >= 0, rows.stream[made_by], 0)
    handle[rows.kind == Kind.RECORD_STREAM] = rows.stream[rows.kind == Kind.RECORD_STREAM]
    streams, stream = _number_streams(handle, made_by >= 0)
    trace = Trace(
        kind=rows.kind,
        id=ids.astype(np.uint32),
        size=np.where(made, rows.size, 0),
        stream=stream.astype(np.uint32),
        name=name,
        source=source,
        device=device,
        streams=streams,
        pools=pools,
        marks_from=marks_from if is_mark.any() else "none",
        initial=initial,
        site=rows.site if call_sites is not None else None,
        call_sites=call_sites,
        time_us=rows.time_us,
    )
    validate(trace)
    return trace


def _number_streams(handle: I64, counts: npt.NDArray[np.bool_]) -> tuple[tuple[int, ...], I64]:
    handles, numbers = np.unique(handle[counts], return_inverse=True)
    stream = np.zeros(len(handle), dtype=np.int64)
    stream[counts] = numbers
    return tuple(int(value) for value in handles) or (0,), stream


def insert_marks(trace: Trace, before: I64, marks_from: MarksFrom) -> Trace:
    """An unmarked trace with an iteration mark before each of these events."""
    marked = insert_events(trace, Kind.ITERATION, before, np.arange(len(before)))
    return replace(marked, marks_from=marks_from if len(before) else "none")


def insert_events(trace: Trace, kind: Kind, before: I64, ids: Any = 0) -> Trace:
    """A trace with further events, which concern no allocation, before each of these."""

    def with_rows(column: npt.NDArray[Any] | None, values: Any) -> Any:
        return None if column is None else np.insert(column, before, values)

    times = None if trace.time_us is None else trace.time_us[np.minimum(before, len(trace) - 1)]
    return replace(
        trace,
        kind=with_rows(trace.kind, kind),
        id=with_rows(trace.id, ids),
        size=with_rows(trace.size, 0),
        stream=with_rows(trace.stream, 0),
        site=with_rows(trace.site, -1),
        time_us=with_rows(trace.time_us, times),
    )
