"""Our own trace format, suffix `.gmt`: small, exact, quick to read, and refused when damaged.

    magic 8 | version u16 | header length u32 | CRC-32 of the header u32 | header | column | column | ...

Numbers are little-endian; the header is JSON. Its "columns" lists, in order, [name, values, bytes each,
compressed length, CRC-32 of the compressed bytes]; a column is one xz stream. What follows from other columns
is not stored:

  kind      one byte per event
  back      FREE, RECORD_STREAM: allocations made so far minus the id
  again     ALLOCATE: how many allocations ago the same size was asked for, 0 if never
  size      ALLOCATE: the sizes that `again` calls new
  stream    ALLOCATE, RECORD_STREAM
  pool      pool events
  site      ALLOCATE: call site + 1, if there are call sites; "sites" holds their table as JSON
  time_us   every event: zig-zag of the difference to the one before, if there are times

Ids of allocations and iterations count up and the stream of a FREE is its allocation's. `back` and `again`
look backwards so that repeated work repeats in the file even if its sizes change: xz finds the iterations,
and a recorded training becomes a thousand times smaller than its columns.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from gmlake.trace.errors import TraceError
from gmlake.trace.formats.packing import distance_back, follow_back, pack, unpack
from gmlake.trace.formats.sites import sites_from_json, sites_to_json
from gmlake.trace.trace import U64, Kind, Trace
from gmlake.trace.validation import validate

MAGIC = b"\x89GMT\r\n\x1a\n"  # as PNG's: shows when a transfer has rewritten line ends or the eighth bit
VERSION = 1
_PREFIX = struct.Struct("<8sHII")
_MAX_HEADER = 1 << 20


def sniff(data: bytes) -> bool:
    """Does it begin like a .gmt trace, even a damaged one?"""
    return data.startswith(MAGIC[:4])


def write(trace: Trace) -> bytes:
    """The trace as a .gmt file."""
    validate(trace)
    made = trace.kind == Kind.ALLOCATE
    uses = (trace.kind == Kind.FREE) | (trace.kind == Kind.RECORD_STREAM)
    pools = (trace.kind >= Kind.BEGIN_POOL) & (trace.kind <= Kind.RELEASE_POOL)
    again = distance_back(trace.size[made])
    values: dict[str, npt.NDArray[Any]] = {
        "kind": trace.kind,
        "back": np.cumsum(made)[uses] - trace.id[uses],
        "again": again,
        "size": trace.size[made][again == 0],
        "stream": trace.stream[made | (trace.kind == Kind.RECORD_STREAM)],
        "pool": trace.id[pools],
    }
    if trace.site is not None and trace.call_sites is not None:
        values["site"] = trace.site[made].astype(np.int64) + 1
        values["sites"] = np.frombuffer(sites_to_json(trace.call_sites), dtype=np.uint8)
    if trace.time_us is not None:
        step = np.diff(trace.time_us, prepend=0)
        values["time_us"] = (step << 1) ^ (step >> 63)
    table, blocks = [], []
    for name, column in values.items():
        width, block = pack(column.astype(np.int64).view(np.uint64))
        table.append([name, len(column), width, len(block), zlib.crc32(block)])
        blocks.append(block)
    header = {
        "source": trace.source,
        "device": trace.device,
        "streams": trace.streams,
        "pools": trace.pools,
        "marks_from": trace.marks_from,
        "initial": trace.initial,
        "columns": table,
    }
    encoded = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_PREFIX.pack(MAGIC, VERSION, len(encoded), zlib.crc32(encoded)), encoded, *blocks))


def read(data: bytes, name: str, device: int | None) -> Trace:
    """The trace of a .gmt file."""
    header, offset = _header(data)
    try:
        columns: dict[str, U64] = {}
        for column, count, width, length, checksum in header["columns"]:
            block = data[offset : offset + length]
            offset += length
            if len(block) != length or zlib.crc32(block) != checksum:
                raise TraceError(f"column {column!r} is damaged: its checksum does not match")
            columns[str(column)] = unpack(block, int(count), int(width), str(column))
        if offset != len(data):
            raise TraceError(f"{len(data) - offset} bytes follow the last column, expected none")
        trace = _assemble(header, columns, name)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise TraceError("the header does not describe the columns of a trace") from error
    if device is not None and device != trace.device:
        raise TraceError(f"holds device {trace.device} only, not device {device}")
    validate(trace)
    return trace


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX.size:
        raise TraceError(f"is cut short: {len(data)} bytes, expected at least {_PREFIX.size}")
    magic, version, length, checksum = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise TraceError("begins like a .gmt trace but was altered in transfer (line ends or the eighth bit)")
    if version != VERSION:
        raise TraceError(f"is a .gmt trace of version {version}, expected {VERSION}: a newer gmlake wrote it")
    encoded = data[_PREFIX.size : _PREFIX.size + length]
    if length > _MAX_HEADER or len(encoded) != length or zlib.crc32(encoded) != checksum:
        raise TraceError("has a damaged header: its checksum does not match")
    try:
        header = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise TraceError("has a header that is not JSON") from error
    if not isinstance(header, dict):
        raise TraceError("has a header that is not a JSON object")
    return header, _PREFIX.size + length


def _assemble(header: dict[str, Any], columns: dict[str, U64], name: str) -> Trace:
    kind = columns["kind"].astype(np.uint8)
    made, freed = kind == Kind.ALLOCATE, kind == Kind.FREE
    on_stream = made | (kind == Kind.RECORD_STREAM)
    uses = freed | (kind == Kind.RECORD_STREAM)
    marks = kind == Kind.ITERATION
    ids = np.zeros(len(kind), dtype=np.int64)
    ids[made] = np.arange(np.count_nonzero(made))
    ids[marks] = np.arange(np.count_nonzero(marks))
    ids[uses] = np.cumsum(made)[uses] - columns["back"].astype(np.int64)
    if (ids[uses] < 0).any() or (ids[freed] >= np.count_nonzero(made)).any():
        raise TraceError("refers to an allocation that was never made")
    ids[(kind >= Kind.BEGIN_POOL) & (kind <= Kind.RELEASE_POOL)] = columns["pool"]
    size = np.zeros(len(kind), dtype=np.int64)
    size[made] = follow_back(columns["again"].astype(np.int64), columns["size"].astype(np.int64))
    stream = np.zeros(len(kind), dtype=np.uint32)
    stream[on_stream] = columns["stream"]
    stream[freed] = stream[made][ids[freed]]
    site = call_sites = time_us = None
    if "site" in columns:
        site = np.full(len(kind), -1, dtype=np.int32)
        site[made] = columns["site"].astype(np.int64) - 1
        call_sites = sites_from_json(columns["sites"].astype(np.uint8).tobytes())
    if "time_us" in columns:
        coded = columns["time_us"]
        time_us = np.cumsum((coded >> np.uint64(1)).astype(np.int64) ^ -(coded & np.uint64(1)).astype(np.int64))
    return Trace(
        kind=kind,
        id=ids.astype(np.uint32),
        size=size,
        stream=stream,
        name=name,
        source=str(header["source"]),
        device=int(header["device"]),
        streams=tuple(int(handle) for handle in header["streams"]),
        pools=tuple((int(first), int(second)) for first, second in header["pools"]),
        marks_from=header["marks_from"],
        initial=int(header["initial"]),
        site=site,
        call_sites=call_sites,
        time_us=time_us,
    )
