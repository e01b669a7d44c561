"""The findings of a run as text, on stderr: the command's own output stays untouched."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gmlake import _core
from gmlake.emulator.launch import Plan
from gmlake.emulator.session import Findings
from gmlake.errors import Error
from gmlake.hints import operand, show_next
from gmlake.terminal import counted

WIDTH = 120  # of tables at most; a narrower terminal breaks their lines
_MOST = 5  # places and symbols that are shown
NO_GPU = "CUDA finds no GPU on this machine; --emulate DEVICE runs the command without one"
_HAZARDS_TOLD = 10  # by a process, when they happen (emulator/device/hazards.cpp)
_LONGEST = 60  # letters of a line of source
PEAKS = ("requested", "active", "reserved", "in use %", "retries", "OOM")  # heads of what peak_cells gives


def show(findings: Findings, plan: Plan) -> None:
    """Print what was found."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, width=WIDTH)
    console.print()
    console.print(f"[bold]gmlake run[/]  {escape(title(plan))}")
    if findings.processes:
        _show_peaks(console, findings.processes)
    else:
        console.print("No process used CUDA, or none lived to report what it needed.")
        if lacks_gpu(plan):
            console.print(f"{NO_GPU}.")
    _show_reads(console, findings.processes, plan)
    _show_hazards(console, findings.processes, plan)
    if findings.unimplemented:
        console.print(f"Not implemented, but called: {first(findings.unimplemented)}.")
    for process in findings.processes:
        for problem in _problems(process):
            console.print(f"In process {process['pid']}: {escape(problem)}")
    _show_traces(console, findings)


def lacks_gpu(plan: Plan) -> bool:
    """Whether the command was to run on a GPU of this machine, which has none."""
    if plan.device is not None:
        return False
    try:
        return _core.CudaDriver.device_count() == 0
    except Error:
        return True


def title(plan: Plan) -> str:
    """On what the command ran."""
    if plan.device is None:
        return "on the devices of this machine"
    memory = _core.format_bytes(plan.device.memory)
    count = f"{plan.gpus} emulated devices, each" if plan.gpus > 1 else "emulated device,"
    values = "computed on the CPU" if plan.compute else "nothing is computed, values are not real"
    rank = "" if plan.world_size is None else f"; rank {plan.rank} of {plan.world_size}"
    return f"{count} {plan.device.name} with {memory}; {values}{rank}"


def _show_peaks(console: Console, processes: list[dict[str, Any]]) -> None:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("process")
    for head in ("GPU", *PEAKS):
        table.add_column(head, justify="right")
    for process in processes:
        name = f"{process['pid']}" if process["rank"] is None else f"rank {process['rank']} ({process['pid']})"
        for row in process.get("devices", []):
            table.add_row(name, str(row["device"]), *peak_cells(row))
    backends = sorted({str(process.get("backend", "native")) for process in processes})
    served = "PyTorch's own allocator" if backends == ["native"] else " and ".join(backends)
    console.print(f"Peaks as reported by {escape(served)}:", style="dim")
    console.print(table)


def peak_cells(row: dict[str, Any]) -> list[str]:
    """What a process needed of a device, for the columns of PEAKS."""
    return [
        *(_size(row[f"peak_{kind}"]) for kind in ("requested", "active")),
        _size(row["peak_reserved"] or row["peak_on_device"]),
        _share(row["peak_active"], row["peak_reserved"]),
        str(row["retries"]),
        str(row["out_of_memory"]),
    ]


def _size(value: int | None) -> str:
    return "-" if value is None else _core.format_bytes(value)


def _share(part: int | None, whole: int | None) -> str:
    return f"{100 * part / whole:.1f}" if part and whole else "-"


def _show_reads(console: Console, processes: list[dict[str, Any]], plan: Plan) -> None:
    """Places where the program read values of the device, most often first."""
    if plan.device is None or plan.compute:
        return
    times: dict[tuple[str, str], int] = {}
    for process in processes:
        reads = process.get("reads")
        for read in reads if isinstance(reads, list) else ():
            line = str(read["place"]), str(read.get("source", ""))
            times[line] = times.get(line, 0) + int(read["times"])
    if not times:
        return
    console.print("Values that the program read back, though they are not real:")
    order = sorted(times, key=lambda line: -times[line])
    for place, source in order[:_MOST]:
        text = source if len(source) <= _LONGEST else f"{source[:_LONGEST]}..."
        console.print(f"  {times[place, source]:>6,} ×  {escape(place)}  [dim]{escape(text)}[/]")
    if len(order) > _MOST:
        console.print(f"  and at {counted(len(order) - _MOST, 'more place')} (--json lists them all)")


def _show_hazards(console: Console, processes: list[dict[str, Any]], plan: Plan) -> None:
    counts = [process.get("hazards") or 0 for process in processes]
    hazards = sum(counts)
    if hazards:
        told = "each is told above" if max(counts) <= _HAZARDS_TOLD else "the first of them are told above"
        console.print(f"Memory used by two streams with nothing to order them: {counted(hazards, 'time')} ({told}).")
    elif plan.hazards and processes:
        console.print("No memory was used by two streams without an order between them.")
    missing = {name for process in processes for name in process.get("not_computed") or ()}
    if missing:
        console.print(f"Not computed, so that what depends on it is not real: {escape(first(sorted(missing)))}.")


def first(items: list[str]) -> str:
    """The first few of a list, and how many more there are."""
    more = f" and {len(items) - _MOST} more" if len(items) > _MOST else ""
    return ", ".join(items[:_MOST]) + more


def _problems(process: dict[str, Any]) -> list[str]:
    found = [f"the report is incomplete: {process['problem']}"] if "problem" in process else []
    for name, value in process.items():
        if isinstance(value, dict) and "problem" in value:
            found.append(f"no {name}: {value['problem']}")
    return found


def _show_traces(console: Console, findings: Findings) -> None:
    for trace in findings.traces:
        lost = "; older events were lost, because PyTorch's history was full" if trace.beginning_lost else ""
        counts = f"{counted(trace.events, 'event')}, {counted(trace.iterations, 'iteration')}"
        console.print(f"Trace of GPU {trace.device}: [bold]{escape(trace.path)}[/] ({counts}{lost})")
    if findings.traces:
        show_next(console, ["gmlake", "replay", operand(findings.traces[0].path)])
