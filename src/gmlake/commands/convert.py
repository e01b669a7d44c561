"""Convert a trace from one format to another.

Reads PyTorch memory snapshots (pickle or JSON, also gzipped), RMM logs, four-column .npz files, gmlake's own
.gmt and the bundled traces by name; the content decides, not the suffix. Writes .gmt, PyTorch snapshots
(.pickle for the public memory viewer, which reads no others; .json; with .gz if you like), .npz, and the CSV of
minimalloc. The suffix of OUTPUT chooses the format unless --to does.

  gmlake convert snapshot.pickle -o run.gmt            a recorded run, some hundred times smaller
  gmlake convert run.gmt -o run.pickle                 back, for https://pytorch.org/memory_viz
  gmlake convert demo -o short.gmt --iterations 0-2    the first three iterations of a bundled trace
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from gmlake.terminal import counted
from gmlake.trace.convert import convert
from gmlake.trace.reading import format_names
from gmlake.waiting import waiting

NAME = "convert"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("input", metavar="INPUT", help="a trace: a file, or the name of a bundled trace")
    parser.add_argument("-o", "--output", metavar="OUTPUT", required=True, help="the file to write")
    parser.add_argument("--to", metavar="FORMAT", choices=format_names(), help=f"one of {', '.join(format_names())}")
    parser.add_argument("--device", metavar="N", type=int, help="device of a snapshot (default: most events)")
    parser.add_argument("--iterations", metavar="LIST", help="keep only these, such as 0-3,7")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite OUTPUT if it exists")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Convert, and say what was written and what was left out."""
    with waiting("converting", args.input):
        done = convert(
            args.input,
            args.output,
            to=args.to,
            device=args.device,
            iterations=args.iterations,
            force=args.force,
        )
    if args.json:
        print(json.dumps(asdict(done)))
        return 0
    marks = f", {counted(done.iterations, 'iteration')}" if done.iterations else ""
    found = " (found from periodicity)" if done.marks_from == "periodicity" else ""
    counts = f"{counted(done.events, 'event')}, {counted(done.allocations, 'allocation')}{marks}{found}"
    print(f"{done.output}: {counts}, {counted(done.bytes, 'byte')}")
    if done.left_out:
        print(f"left out, because the format {done.format} cannot hold them: {', '.join(done.left_out)}")
    print(f"look at it: {done.look}")
    return 0
