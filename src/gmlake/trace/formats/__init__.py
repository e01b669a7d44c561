"""The file formats of traces, one module each, and the table that knows them all.

A format recognises itself by content (`sniff`), never by the name of the file; the suffix only chooses what
to write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gmlake.trace.formats import gmlake, minimalloc, npz, rmm, snapshot, snapshot_write
from gmlake.trace.trace import Kind, Trace

_ALL_KINDS = frozenset(Kind)
_IN_SNAPSHOTS = frozenset({Kind.ALLOCATE, Kind.FREE, Kind.ITERATION, Kind.BEGIN_POOL, Kind.END_POOL})


@dataclass(frozen=True)
class Format:
    """One row of the table; a format that cannot be read or written has None there."""

    name: str
    suffix: str
    meaning: str
    sniff: Callable[[bytes], bool] | None = None
    read: Callable[[bytes, str, int | None], Trace] | None = None
    write: Callable[[Trace], bytes] | None = None
    holds: frozenset[Kind] = _ALL_KINDS  # kinds of events that survive writing
    annotated: bool = True  # do call sites and times?


FORMATS: tuple[Format, ...] = (
    Format("gmlake", ".gmt", "gmlake's own format (.gmt)", gmlake.sniff, gmlake.read, gmlake.write),
    Format(
        "npz",
        ".npz",
        "an .npz of the columns kind, id, size and stream",
        npz.sniff,
        npz.read,
        npz.write,
        annotated=False,
    ),
    Format("rmm", ".csv", "a log of RAPIDS RMM", rmm.sniff, rmm.read),
    Format(
        "snapshot",
        ".pickle",
        "a memory snapshot of PyTorch",
        snapshot.sniff,
        snapshot.read,
        snapshot_write.write_pickle,
        _IN_SNAPSHOTS,
    ),
    Format("snapshot-json", ".json", "a memory snapshot as JSON", write=snapshot_write.write_json, holds=_IN_SNAPSHOTS),
    Format(
        "minimalloc",
        ".csv",
        "buffers with lifetimes, for the solver of that name",
        write=minimalloc.write,
        holds=frozenset({Kind.ALLOCATE, Kind.FREE}),
        annotated=False,
    ),
)

READABLE = tuple(row for row in FORMATS if row.read is not None)
WRITABLE = tuple(row for row in FORMATS if row.write is not None)
