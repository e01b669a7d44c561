"""The paper's evaluation and more: list, show, record and run training jobs.

A workload is a training job that is described completely: model, engine, strategy, GPUs, batch and lengths of texts.
Its id says all of it: opt-13b/zero3/LR/4gpu/b88/var is OPT-13B on DeepSpeed's ZeRO-3 with LoRA (L) and recomputation
(R), as rank 0 of 4, 88 texts in a batch, of another length in every iteration. O means offload to the host, N none of
them. Wherever a workload is asked for, NAME is an id, its first parts, or a suite: paper, beyond, quick, all.

examples:
  gmlake workloads list paper
      the workloads that are compared with published figures
  gmlake workloads run paper
      replay them all on gmlake, PyTorch's allocators and the published GMLake, and print the paper's tables
  gmlake workloads run vicuna-13b/zero3/LR --json
      some of them, for scripts: the same objects as gmlake replay --json
  gmlake workloads run paper --ray auto
      the same on the Ray cluster of this machine
  gmlake workloads record opt-13b/zero3/LR/4gpu/b88/var -o traces
      make a trace anew: the real code of transformers, PEFT and DeepSpeed runs on an emulated device
  gmlake workloads run opt-13b/zero3/LR/4gpu/b88/var --traces traces
      and replay that one

Finished replays and recordings are kept: interrupt a run, start it again, and it goes on where it was.

exit status: 0; 1 if a recording failed, or for a failure of ours; 2 for bad input.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as Drawn
from rich.text import Text

from gmlake.commands.replay import check_jobs, validate
from gmlake.errors import UserError
from gmlake.helptext import HelpFormatter
from gmlake.hints import show_next
from gmlake.replay import ALLOCATORS
from gmlake.replay.progress import ProgressDisplay
from gmlake.terminal import counted, standard_output
from gmlake.workloads import document
from gmlake.workloads.campaign import Outcome, record_all
from gmlake.workloads.catalogue import select, suites, workloads
from gmlake.workloads.evaluation import cases, tables
from gmlake.workloads.recording import VERSIONS, check_packages
from gmlake.workloads.results import Kept, usual_folder
from gmlake.workloads.running import BUNDLED, Elsewhere, count_missing, settings, trace_of
from gmlake.workloads.running import run as run_all
from gmlake.workloads.summary import sentences, summarise
from gmlake.workloads.workload import ENGINES, STRATEGIES, Workload

NAME = "workloads"
_JSON = "print JSON and nothing else"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the four."""
    parser.set_defaults(what=None)
    actions = parser.add_subparsers(metavar="list | show | record | run")

    name = "a suite, an id, or its first parts, as in opt-13b/zero3"
    listing = actions.add_parser("list", help="the catalogue, or a part of it", description=_list.__doc__)
    listing.add_argument("names", metavar="NAME", nargs="*", help=f"{name}; default: all")
    listing.set_defaults(what=_list)

    showing = actions.add_parser("show", help="all about one workload", description=_show.__doc__)
    showing.add_argument("name", metavar="ID")
    showing.set_defaults(what=_show)

    recording = actions.add_parser(
        "record",
        help="make traces from scratch, on the emulated device",
        description=inspect.getdoc(_record),
        formatter_class=HelpFormatter,
    )
    recording.add_argument("names", metavar="NAME", nargs="+", help=name)
    recording.add_argument("-o", "--output", metavar="DIR", type=Path, default=Path("traces"), help="default: traces")
    recording.add_argument("--jobs", metavar="N", type=int, default=1, help="recordings at the same time; default: 1")
    recording.add_argument("-f", "--force", action="store_true", help="record again what is there already")
    recording.set_defaults(what=_record)

    running = actions.add_parser(
        "run",
        help="replay on every allocator and print the paper's tables",
        description=inspect.getdoc(_run),
        formatter_class=HelpFormatter,
    )
    add = running.add_argument
    add("names", metavar="NAME", nargs="+", help=name)
    add("--allocator", metavar="NAME[:OPTION=VALUE,...]", action="append", help=f"default: {', '.join(ALLOCATORS)}")
    add("--traces", metavar="DIR", type=Path, help="look here for traces before the bundled ones")
    add("--no-smallest-capacity", action="store_true", help="leave out the search for the smallest device (quicker)")
    add("--state", metavar="DIR", type=Path, help="where results are kept; default: ~/.cache/gmlake/workloads")
    add("--jobs", metavar="N", type=int, help="replays at the same time; default: one per core")
    add("--ray", metavar="ADDRESS", help="replay on this Ray cluster; 'auto' finds the one of this machine")
    add("--markdown", metavar="PAGE", type=Path, help="write the tables into a page that has a place for them")
    running.set_defaults(what=_run)

    for action in (listing, showing, recording, running):
        action.add_argument("--json", action="store_true", help=_JSON)


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    if args.what is None:
        raise UserError("say what to do with workloads: list, show, record or run; see 'gmlake workloads --help'")
    status: int = args.what(args)
    return status


def _list(args: argparse.Namespace) -> int:
    """The catalogue, or a part of it: ids, suites, and whether the trace is bundled."""
    chosen = select(args.names or ["all"])
    if args.json:
        print(json.dumps({"workloads": [workload.to_json() for workload in chosen]}, indent=2))
        return 0
    console = standard_output()
    drawn = Drawn(box=None, header_style="dim", padding=(0, 1), pad_edge=False)
    for head in ("workload", "iterations", "suites", "trace"):
        drawn.add_column(head, no_wrap=True)
    for workload in chosen:
        there = "bundled" if (BUNDLED / workload.file_name).exists() else "-"
        drawn.add_row(workload.id, str(workload.iterations), " ".join(workload.suites), there)
    console.print(drawn)
    known = ", ".join(f"{name} ({len(found)})" for name, found in sorted(suites().items()))
    console.print(f"\n{len(chosen)} of {len(workloads())} workloads; suites: {known}", style="dim")
    show_next(console, ["gmlake", NAME, "show", chosen[0].id])
    return 0


def _show(args: argparse.Namespace) -> int:
    """All about one workload: model, engine, strategy, the length of every iteration, its trace."""
    found = select([args.name])
    if len(found) > 1:
        raise UserError(f"'{args.name}' means {len(found)} workloads; see them with: gmlake workloads list {args.name}")
    [workload] = found
    if args.json:
        print(json.dumps(workload.to_json() | {"shape_list": workload.shape_list()}, indent=2))
        return 0
    numbers = ", ".join(f"{name} {value}" for name, value in workload.model["numbers"].items())
    path = BUNDLED / workload.file_name
    lines = {
        "workload": workload.id,
        "about": workload.about,
        "model": f"{workload.model['config']}: {numbers}",
        "engine": ENGINES[workload.engine],
        "strategy": STRATEGIES[workload.strategy],
        "ranks": f"rank 0 of {workload.gpus}",
        "batch": str(workload.batch),
        "shapes": f"{workload.shapes}: {' '.join(map(str, workload.shape_list()))}",
        "suites": " ".join(workload.suites),
        "trace": str(path) if path.exists() else "not bundled",
    }
    for name, text in lines.items():
        standard_output().print(Text(f"{name:<10}", style="dim").append(text, style="default"), soft_wrap=True)
    after = ["replay", str(path)] if path.exists() else [NAME, "record", workload.id]
    show_next(standard_output(), ["gmlake", *after])
    return 0


def _record(args: argparse.Namespace) -> int:
    """Make traces from scratch: real training code runs on the emulated device.

    It needs the packages of requirements/emulated.txt and requirements/deepspeed.txt, in these versions, under 2 GB of
    memory and half a minute to some minutes for each. What is in DIR already is kept.

    examples:
      gmlake workloads record tiny -o traces
      gmlake workloads record paper -o traces --jobs 2
    """
    check_jobs(args.jobs)
    chosen = select(args.names)
    here = check_packages()
    for name, version in here.items():
        if version != VERSIONS[name]:
            print(
                f"gmlake: {name} is {version}, traces are made with {VERSIONS[name]}; they may differ", file=sys.stderr
            )
    with _bars() as bars:
        everything = bars.add_task("recordings", total=len(chosen))
        under_way: dict[str, TaskID] = {}

        def progress(workload: Workload, done: int) -> None:
            if workload.id not in under_way:
                under_way[workload.id] = bars.add_task(workload.id, total=workload.iterations)
            bars.update(under_way[workload.id], completed=done, visible=done < workload.iterations)
            if done == workload.iterations:
                bars.advance(everything)

        outcome = record_all(chosen, args.output, args.jobs, args.force, progress)
    if args.json:
        recorded = [asdict(found) for found in outcome.recorded]
        print(json.dumps({"recorded": recorded, "kept": outcome.kept, "failed": outcome.failed}, indent=2))
    else:
        _show_recorded(outcome)
        show_next(standard_output(), ["gmlake", NAME, "run", args.names[0], "--traces", str(args.output)])
    return 1 if outcome.failed else 0


def _show_recorded(outcome: Outcome) -> None:
    console = standard_output()
    for found in outcome.recorded:
        counts = f"{counted(found.events, 'event')}, {counted(found.iterations, 'iteration')}"
        console.print(
            f"{found.id}: {counts}, {found.seconds:.0f} s, {found.host_bytes / 2**30:.1f} GiB of this machine",
            soft_wrap=True,
        )
    if outcome.kept:
        console.print(f"{len(outcome.kept)} were there already; -f records them again.", style="dim")
    for why in outcome.failed.values():
        print(f"gmlake: error: {why}", file=sys.stderr)


def _run(args: argparse.Namespace) -> int:
    """Replay workloads on every allocator, on a simulated A100 with 80 GB, and print the paper's tables.

    Published figures stand beside ours where there are some. Results are kept as they come: start it again and it goes
    on where it was.

    examples:
      gmlake workloads run paper
      gmlake workloads run opt-13b --no-smallest-capacity
      gmlake workloads run quick --allocator gmlake --allocator gmlake:target=0.99
      gmlake workloads run paper --ray auto
    """
    check_jobs(args.jobs)
    if args.markdown is not None:
        document.check(args.markdown)
    chosen = select(args.names)
    allocators = list(dict.fromkeys(args.allocator or ALLOCATORS))
    how = settings(smallest=not args.no_smallest_capacity)
    validate(allocators, how)
    for workload in chosen:
        trace_of(workload, args.traces)
    kept = Kept(args.state or usual_folder())
    missing = count_missing(chosen, allocators, how, kept, args.traces)
    started = time.monotonic()
    if args.ray is not None:
        with _bars() as bars:
            results = run_all(chosen, allocators, how, kept, args.traces, elsewhere=_on_ray(args.ray, bars))
    else:
        with ProgressDisplay(missing) as display:
            results = run_all(chosen, allocators, how, kept, args.traces, args.jobs, display=display)
    found = cases(chosen, results)
    summary = summarise(found)
    if args.markdown is not None:
        document.write(args.markdown, tables(found), [] if summary is None else sentences(summary))
    if args.json:
        sums = None if summary is None else summary.to_json()
        print(json.dumps({"results": [result.to_json() for result in results], "summary": sums}, indent=2))
        return 0
    console = standard_output()
    for table in tables(found):
        table.show(console)
    for sentence in [] if summary is None else sentences(summary):
        console.print(sentence, style="bold", soft_wrap=True)
    kept_ones = ", the others were kept" if missing < len(results) else ""
    took = f"{missing} of {len(results)} replays in {time.monotonic() - started:.0f} s{kept_ones}"
    console.print(f"\n{took}. Driver times are modelled, not measured.", style="dim", soft_wrap=True)
    show_next(console, ["gmlake", NAME, "show", chosen[0].id])
    return 0


def _on_ray(address: str, bars: Progress) -> Elsewhere:
    from gmlake.workloads.cluster import on_ray

    task = bars.add_task("replays on the cluster", total=None)
    return on_ray(address, lambda total: bars.update(task, total=total), lambda: bars.advance(task))


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
