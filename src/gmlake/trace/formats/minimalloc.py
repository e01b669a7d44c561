"""The CSV of minimalloc, the solver for the best placement made knowing everything: id,lower,upper,size.

One buffer per allocation; it lives from its allocation's event index up to, but not including, that of its
free, or to the end. Streams and pools are left out, since an offline placement need not respect them.
Written, not read.
"""

from __future__ import annotations

import numpy as np

from gmlake.trace.trace import Kind, Trace


def write(trace: Trace) -> bytes:
    """The allocations of a trace as buffers."""
    lower = np.flatnonzero(trace.kind == Kind.ALLOCATE)
    upper = np.full(len(lower), len(trace), dtype=np.int64)
    freed = np.flatnonzero(trace.kind == Kind.FREE)
    upper[trace.id[freed]] = freed
    rows = zip(lower.tolist(), upper.tolist(), trace.size[lower].tolist(), strict=True)
    lines = [f"{number},{start},{end},{size}" for number, (start, end, size) in enumerate(rows)]
    return ("\n".join(["id,lower,upper,size", *lines]) + "\n").encode()
