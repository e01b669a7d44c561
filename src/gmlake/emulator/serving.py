"""Who served the memory of a run: a command may choose an allocator itself, and not the one that was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_WHO = {  # and what in a script makes it so
    "torch": ("PyTorch's allocator without expandable segments", "the line that sets PYTORCH_CUDA_ALLOC_CONF"),
    "expandable": ("PyTorch's allocator with expandable segments", "the line that sets expandable_segments"),
    "gmlake": ("GMLake", "gmlake.enable(), or the line that sets GMLAKE,"),
}


def served_otherwise(wanted: str | None, processes: Iterable[dict[str, Any]]) -> str | None:
    """Which other allocator served a process; None if all had the one that was asked for, as far as is known."""
    for process in processes:
        backend = process.get("backend")
        if wanted is None or backend is None or not process.get("devices"):
            continue
        if backend != "native":
            served = str(backend)
        elif process.get("expandable") is None:  # not known: it may have been either
            served = "torch" if wanted == "gmlake" else wanted
        else:
            served = "expandable" if process["expandable"] else "torch"
        if served != wanted:
            return served
    return None


def explanation(wanted: str, served: str) -> str:
    """One sentence about that, with what to do."""
    who, cause = _WHO.get(served, (served, "what chooses it"))
    told = f"the run with --allocator {wanted} was served by {who}"
    if wanted == "gmlake":
        return f"{told}; if its output does not say why, remove the line that sets GMLAKE from its script"
    return f"{told}, which its script chooses itself; remove {cause} from it"
