"""What `gmlake convert` does: read a trace in any format, shorten it if asked, write it in any other."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from gmlake.hints import mention_devices, operand
from gmlake.output import check_target
from gmlake.trace.errors import TraceError
from gmlake.trace.excerpt import keep_iterations
from gmlake.trace.reading import about, format_to_write, read_trace, write_trace


@dataclass(frozen=True)
class Conversion:
    """What was written, for people and for --json."""

    output: str
    format: str
    bytes: int
    events: int
    allocations: int
    iterations: int
    marks_from: str
    left_out: list[str]  # what the format cannot hold
    look: str  # how to look at the file


def convert(
    source: str,
    output: str | Path,
    *,
    to: str | None = None,
    device: int | None = None,
    iterations: str | None = None,
    force: bool = False,
) -> Conversion:
    """Read, shorten, write. Nothing is overwritten unless `force` is true."""
    output = Path(output)
    form = format_to_write(output, to)
    check_target(output, force)
    trace = read_trace(source, device=device)
    mention_devices([trace])
    if iterations is not None:
        numbers = parse_iterations(iterations)
        with about(source):
            trace = keep_iterations(trace, numbers)
    left_out = write_trace(trace, output, form.name, force=force)
    return Conversion(
        output=str(output),
        format=form.name,
        bytes=output.stat().st_size,
        events=len(trace),
        allocations=trace.allocations,
        iterations=trace.iterations,
        marks_from=trace.marks_from,
        left_out=left_out,
        look=_look(output, form.name),
    )


def _look(output: Path, form: str) -> str:
    if form == "minimalloc":
        return f"minimalloc --capacity=BYTES --input={shlex.quote(str(output))} --output=placed.csv"
    replay = shlex.join(["gmlake", "replay", operand(output)])
    # The viewer reads pickles, neither JSON nor anything gzipped.
    if form != "snapshot" or output.suffix == ".gz":
        return replay
    return f"open {output} at https://pytorch.org/memory_viz, or {replay}"


_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def parse_iterations(text: str) -> list[int]:
    """'0-3,7' as [0, 1, 2, 3, 7]."""
    numbers: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise TraceError(f"iterations are {text!r}, expected numbers and ranges such as 0-3,7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise TraceError(f"iterations {part.strip()!r} end before they begin, expected such as {last}-{first}")
        if last - first > 1_000_000:
            raise TraceError(f"iterations {part.strip()!r} are more than any trace has")
        numbers.extend(range(first, last + 1))
    return numbers
