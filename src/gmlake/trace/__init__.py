"""Traces, recorded sequences of allocation events: reading, writing, checking, finding their iterations."""

from gmlake.trace.bundled import bundled_names
from gmlake.trace.errors import TraceError
from gmlake.trace.reading import names_of, read_snapshot, read_trace, read_traces, write_trace
from gmlake.trace.trace import CallSites, Frame, Kind, Trace
from gmlake.trace.validation import validate

__all__ = [
    "CallSites",
    "Frame",
    "Kind",
    "Trace",
    "TraceError",
    "bundled_names",
    "names_of",
    "read_snapshot",
    "read_trace",
    "read_traces",
    "validate",
    "write_trace",
]
