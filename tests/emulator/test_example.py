"""examples/lora.py, at a size that the CPU can compute."""

from __future__ import annotations

from pathlib import Path

from gmlake.trace import Kind, Trace, read_trace
from tests.emulator.running import Emulated

SMALL = ("--layers", 2, "--hidden", 256, "--steps", 10, "--batch", 3, "--longest", 128)


def test_values_do_not_change_what_the_example_allocates(emulated: Emulated, root: Path, tmp_path: Path) -> None:
    """With real values and without: the same requests in the same order, so the demonstration's figures are right."""
    traces: list[Trace] = []
    for options in ([], ["--compute"]):
        trace = tmp_path / f"{len(traces)}.gmt"
        done = emulated(root / "examples" / "lora.py", "--record", trace, *options, arguments=SMALL)
        assert done.status == 0, done.stderr
        traces.append(read_trace(trace, find_marks=False))
        loss = float(done.stdout.split()[-1])
        assert loss == 0 if not options else 9 < loss < 12
        [process] = done.report["processes"]
        assert not process.get("not_computed")
    nothing_computed, computed = traces
    assert nothing_computed.iterations == computed.iterations == 10
    assert (
        nothing_computed.size[nothing_computed.kind == Kind.ALLOCATE] == computed.size[computed.kind == Kind.ALLOCATE]
    ).all()
