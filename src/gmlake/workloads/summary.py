"""What an evaluation comes down to: average saving, worst utilisation, and where a goal is missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gmlake.workloads.evaluation import DEFAULT, GIB, LEAST_SAVED, LEAST_USED, OURS, Case


@dataclass(frozen=True)
class Summary:
    """Sizes in GiB, shares from 0 to 1; lists hold ids of workloads."""

    of_paper: bool  # all of them are in its tables
    workloads: int
    compared: int  # where both GMLake and PyTorch's default complete
    average_saved: float
    most_saved: float
    average_fragmentation_less: float
    most_fragmentation_less: float
    least_utilisation: float
    below_utilisation: list[str]
    rival_reserves_less: list[str]  # "workload (rival)"
    only_ours_completes: list[str]  # PyTorch's default runs out of memory
    ours_runs_out: list[str]  # where another allocator completes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def summarise(cases: Sequence[Case]) -> Summary | None:
    """The sum; None without results of GMLake and of PyTorch's default."""
    known = [case for case in cases if OURS in case.results and DEFAULT in case.results]
    both = [case for case in known if case.saved is not None]
    if not both:
        return None
    saved = [(case.saved or 0) / GIB for case in both]
    less = [case.results[DEFAULT].fragmentation - case.results[OURS].fragmentation for case in both]
    done = [case for case in known if case.results[OURS].completed]
    used = {case.workload.id: case.results[OURS].utilisation for case in done}
    return Summary(
        of_paper=all(case.workload.tables for case in both),
        workloads=len(known),
        compared=len(both),
        average_saved=sum(saved) / len(saved),
        most_saved=max(saved),
        average_fragmentation_less=sum(less) / len(less),
        most_fragmentation_less=max(less),
        least_utilisation=min(used.values()),
        below_utilisation=[name for name, share in used.items() if share < LEAST_USED],
        rival_reserves_less=[
            f"{case.workload.id} ({name})"
            for case in done
            for name, rival in case.results.items()
            if rival.completed and rival.peak_reserved < case.results[OURS].peak_reserved
        ],
        only_ours_completes=[case.workload.id for case in done if not case.results[DEFAULT].completed],
        ours_runs_out=[
            case.workload.id
            for case in known
            if not case.results[OURS].completed and any(rival.completed for rival in case.results.values())
        ],
    )


def sentences(summary: Summary) -> list[str]:
    """For people."""
    met = "at least" if summary.average_saved >= LEAST_SAVED else "less than"
    published = f"; {met} the 9.2 GB that were published (25 at most)" if summary.of_paper else ""
    lines = [
        f"On {summary.compared} workloads GMLake reserves {summary.average_saved:.1f} GiB less than PyTorch's default "
        f"on average, {summary.most_saved:.1f} at most{published}.",
        f"Fragmentation is {100 * summary.average_fragmentation_less:.0f} points less on average, "
        f"{100 * summary.most_fragmentation_less:.0f} at most{' (published: 15 and 33)' if summary.of_paper else ''}.",
        f"The least utilisation of GMLake is {100 * summary.least_utilisation:.1f} %.",
    ]
    if summary.only_ours_completes:
        lines.append(
            f"PyTorch's default runs out of memory on {len(summary.only_ours_completes)} further workloads that GMLake "
            f"completes: {', '.join(summary.only_ours_completes)}."
        )
    for found, what in (
        (summary.below_utilisation, f"GMLake stays below {100 * LEAST_USED:.0f} %"),
        (summary.rival_reserves_less, "A rival reserves less"),
        (summary.ours_runs_out, "GMLake runs out of memory where another completes"),
    ):
        if found:
            lines.append(f"{what} on {len(found)}: {', '.join(found)}.")
    return lines
