"""Draw one picture of a run, as PNG, SVG or PDF, for papers and chats.

An INPUT is a trace, a snapshot, the name of a bundled trace, or results that gmlake replay --json printed (of which
only needs and calls can be drawn). Several inputs are drawn below each other. The suffix of FILE says which form it
gets.

kinds:
KINDS

examples:
  gmlake plot snapshot.pickle -o memory.png
      active and reserved memory over time
  gmlake plot demo --kind map --allocator caching --allocator gmlake -o map.png
      the memory maps of two allocators side by side
  gmlake plot demo --kind map --events 300000..320000 --style dark -o map.png
      a part of it, on a dark ground
  gmlake plot run.gmt --kind peak -o peak.svg
      what is live at the peak

exit status: 0; 1 for a failure; 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path

from gmlake import plot, report
from gmlake.commands.report import add_inputs, check_heeded, inputs_again, settings_asked
from gmlake.errors import UserError
from gmlake.hints import mention_devices, unused

NAME = "plot"
__doc__ = (__doc__ or "").replace("KINDS", "\n".join(f"  {kind:14} {text}" for kind, text in plot.KINDS.items()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add = parser.add_argument
    add_inputs(parser)
    add("-o", "--output", metavar="FILE", type=Path, required=True, help="the picture: .png, .svg or .pdf")
    add("--kind", choices=plot.KINDS, default="timeline", help="what to draw; default: timeline")
    add("--events", metavar="FROM..TO", help=f"stretch of time to show, of {', '.join(plot.OVER_TIME)}; default: all")
    add("--style", choices=("light", "dark"), default="light", help="default: light")
    add("--size", metavar="WxH", help="inches, like 8x4; default: as the kind needs")
    add("--dpi", metavar="N", type=int, default=160, help="dots per inch of a .png; default: 160")
    add("--title", metavar="TEXT", help="a line above everything")
    add("--json", action="store_true", help="print the file's name and the results, and nothing else")
    add("-f", "--force", action="store_true", help="overwrite FILE if it exists")


def run(args: argparse.Namespace) -> int:
    """Gather, draw, say where it is."""
    report.check_target(args.output, plot.SUFFIXES, args.force)
    look = plot.Look(args.style, _size(args.size), _dpi(args.dpi), args.title, _events(args.events))
    plot.check_look(args.kind, args.output, look)
    plot.check_library()
    allocators, settings = settings_asked(args)
    subjects = report.gather(args.inputs, allocators, settings, args.device, args.jobs)
    check_heeded(args, subjects)
    mention_devices(subject.trace for subject in subjects if subject.trace is not None)
    plot.write(subjects, args.kind, args.output, look)
    if args.json:
        results = [result.to_json() for subject in subjects for result in subject.results]
        print(json.dumps({"picture": str(args.output), "kind": args.kind, "results": results}, indent=2))
        return 0
    print(f"Picture: {args.output} ({plot.KINDS[args.kind]})")
    print(f"Next: {shlex.join(['gmlake', 'report', *inputs_again(args), '-o', unused('report.html')])}")
    return 0


def _size(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    if match is None or not all(1 <= float(side) <= 100 for side in match.groups()):
        raise UserError(f"--size is a width and a height from 1 to 100 inches, like 8x4, not '{text}'")
    return float(match[1]), float(match[2])


def _dpi(number: int) -> int:
    if not 20 <= number <= 1200:
        raise UserError(f"--dpi needs a number from 20 to 1200, not {number}")
    return number


def _events(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise UserError(f"--events is the first and the last event to show, like 1000..2000, not '{text}'")
    return int(match[1]), int(match[2])
