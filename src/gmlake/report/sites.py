"""Call sites in words: the line of a stack that a person would name."""

from __future__ import annotations

from pathlib import PurePath

from gmlake.trace import CallSites, Frame

_MACHINERY = ("torch", "gmlake", "triton")  # packages whose own lines say little about who wanted the memory
_NOWHERE = ("", "??")


def frame_text(frame: Frame) -> str:
    """As in: model.py:42 forward."""
    place = f"{PurePath(frame.filename).name}:{frame.line}" if frame.filename not in _NOWHERE else ""
    return f"{place} {frame.name}".strip() or "unknown"


def telling_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The innermost line outside PyTorch's own code, or else the innermost of all."""
    for frame in stack:
        if frame.filename not in _NOWHERE and not frame.filename.startswith("<") and not _machinery(frame.filename):
            return frame
    return stack[0] if stack else None


def labels(sites: CallSites) -> list[str]:
    """A short name for every call site; several may share one."""
    telling = (telling_frame(sites.stack(site)) for site in range(len(sites.stacks)))
    return ["unknown" if frame is None else frame_text(frame) for frame in telling]


def _machinery(filename: str) -> bool:
    parts = PurePath(filename).parts
    return filename.endswith((".cpp", ".h", ".cu", ".so")) or any(name in parts for name in _MACHINERY)
