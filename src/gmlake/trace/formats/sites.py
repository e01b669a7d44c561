"""Call sites as JSON, and from the frames of a PyTorch snapshot, without repetition."""

from __future__ import annotations

import json
from typing import Any

from gmlake.trace.errors import TraceError
from gmlake.trace.trace import CallSites, Frame


class SiteTable:
    """Numbers call stacks as they are met; equal stacks get equal numbers."""

    def __init__(self) -> None:
        """An empty table."""
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        # Snapshots share stacks, and frames between stacks; the objects are kept so that their ids stay theirs.
        self._seen: dict[int, tuple[object, int]] = {}

    def number(self, frames: Any) -> int:
        """The number of a stack of {"filename", "line", "name"}, or -1 for none."""
        if not frames:
            return -1
        if not isinstance(frames, list):
            raise TraceError("has frames that are not a list")
        known = self._seen.get(id(frames))
        if known is not None:
            return known[1]
        stack = tuple(self._frame(frame) for frame in frames)
        number = self._stacks.setdefault(stack, len(self._stacks))
        self._seen[id(frames)] = (frames, number)
        return number

    def _frame(self, frame: Any) -> int:
        if not isinstance(frame, dict):
            raise TraceError("has a frame that is not a dict")
        known = self._seen.get(id(frame))
        if known is not None:
            return known[1]
        content = Frame(frame.get("filename", ""), frame.get("line", 0), frame.get("name", ""))
        if [type(part) for part in content] != [str, int, str]:
            raise TraceError("has a frame without a filename, a line and a name")
        number = self._frames.setdefault(content, len(self._frames))
        self._seen[id(frame)] = (frame, number)
        return number

    def forget_objects(self) -> None:
        """No more frames of the same snapshot will come."""
        self._seen.clear()

    def finish(self) -> CallSites | None:
        """The table, or None if no stack was ever met."""
        return CallSites(tuple(self._frames), tuple(self._stacks)) if self._stacks else None


def sites_to_json(sites: CallSites) -> bytes:
    """The table as compact JSON."""
    return json.dumps({"frames": sites.frames, "stacks": sites.stacks}, separators=(",", ":")).encode()


def sites_from_json(data: bytes) -> CallSites:
    """The table back, with every index checked."""
    try:
        table = json.loads(data)
        frames = tuple(Frame(str(filename), int(line), str(name)) for filename, line, name in table["frames"])
        stacks = tuple(tuple(int(index) for index in stack) for stack in table["stacks"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError("has a table of call sites that is not readable") from error
    if any(not 0 <= index < len(frames) for stack in stacks for index in stack):
        raise TraceError("has a call site with a frame that is not in its table")
    return CallSites(frames, stacks)
