"""Records PyTorch's memory history over GMLake's journal: torch.cuda.memory._record_memory_history and its like.

Events are the native journal's. Stacks are gathered by PyTorch's own functions, on the allocating thread before any
lock of ours is taken; the journal and the blocks in use only hold their numbers. Stacks that neither of them mentions
any more are forgotten from time to time.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from gmlake import _core
from gmlake.torch import bridge

Frames = list[dict[str, Any]]
# The journal's words and PyTorch's; a stitch maps memory that exists, a trim is no event of PyTorch's.
ACTIONS = {
    "alloc": "alloc",
    "free_requested": "free_requested",
    "free_completed": "free_completed",
    "map": "segment_map",
    "unmap": "segment_unmap",
    "stitch": "segment_map",
    "oom": "oom",
    "annotate": "annotate",
    "snapshot": "snapshot",
}
_OTHER_ACTIONS = ("segment_alloc", "segment_free")  # of PyTorch's alone
_LEVELS = {None: "none", "state": "state", "alloc": "alloc", "all": "all"}
# The shim is not in its place yet; an old torch that has none is refused later, in a sentence.
_record_in_pytorch: Any = getattr(torch._C, "_cuda_record_memory_history", None)
_FEWEST = 100_000  # stacks that are kept before anyone looks which are still needed


class _Recorder:
    """The recording of this process."""

    def __init__(self) -> None:
        self.enabled = False
        self.entries = 0
        self.losses = 0  # how often the journals were switched off or cleared
        self.cpp = False
        self.others = False  # PyTorch records pinned memory or annotations
        self._stacks: dict[int, tuple[Any, Any]] = {}  # of Python (our own frame first), native
        self._numbers = itertools.count(1)
        self._latest: dict[int, int] = {}  # of each thread: may be on its way into a journal
        self._prune_at = _FEWEST
        self._holders: set[object] = set()

    def gather(self) -> int:
        """The number of a new stack; called by the allocator."""
        number = next(self._numbers)
        gather = torch._C._profiler.gather_traceback
        # Apart, because PyTorch would not put them together rightly with our own call in between.
        native = gather(False, False, True) if self.cpp else None
        stack = gather(True, True, False), native
        self._latest[threading.get_ident()] = number
        self._stacks[number] = stack
        if len(self._stacks) > self._prune_at and not self._holders:
            self.prune()
        return number

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no thread forget a stack meanwhile: the journals have been read, and their stacks not yet."""
        holder = object()
        try:  # no lock: whoever looks may be interrupted by a signal, a finalizer or an observer that looks too
            self._holders.add(holder)
            yield
        finally:
            self._holders.discard(holder)
            if len(self._stacks) > self._prune_at:
                self.prune()

    def frames(self, numbers: Iterable[int]) -> dict[int, Frames]:
        """The stacks of these numbers, those that are still known."""
        found = {number: self._stacks.get(number) for number in set(numbers)}
        known = {number: stack for number, stack in found.items() if stack is not None}
        symbolize = torch._C._profiler.symbolize_tracebacks
        python = symbolize([stack for stack, _ in known.values()])
        native = {number: stack for number, (_, stack) in known.items() if stack is not None}
        below = dict(zip(native, symbolize(list(native.values())), strict=True))
        return {
            number: _together(frames[1:], below.get(number, [])) for number, frames in zip(known, python, strict=True)
        }

    def prune(self) -> None:
        """Forget the stacks that neither the journals nor blocks in use mention."""
        self._prune_at = 2 * len(self._stacks)  # other threads need not do the same
        present = list(self._stacks)  # in this order: what comes later is none of our business
        needed = set(self._latest.values())
        needed.update(context for _, context in _core.recorded_contexts())
        for device in _core.used_devices():
            needed.update(entry.context for entry in _core.process_allocator(device).journal())
        if self._holders:  # may have read what the journals have dropped since
            self._prune_at = 0
            return
        for number in present:  # one by one, because other threads add theirs
            if number not in needed:
                self._stacks.pop(number, None)
        self._prune_at = max(_FEWEST, 2 * len(self._stacks))


_recorder = _Recorder()


def record(
    enabled: str | None,
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] = (),
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    """Stand in for torch._C._cuda_record_memory_history."""
    if enabled not in (None, "state", "all"):
        raise RuntimeError(f"expected enabled to be 'state', 'all', or None, not {enabled!r}")
    if context not in _LEVELS:
        raise RuntimeError(f"expected context to be 'state', 'alloc', 'all', or None, not {context!r}")
    if stacks not in ("python", "all"):
        raise RuntimeError(f"expected stacks to be 'python' or 'all', not {stacks!r}")
    _check_actions(skip_actions)
    if (
        bridge.is_active()
        and _records_others()
        and (record_pinned_host_memory or global_record_annotations or _recorder.others)
    ):
        _recorder.others = enabled is not None
        told = enabled, context, stacks, max_entries, clear_history or enabled is None
        _record_in_pytorch(*told, False, global_record_annotations, skip_actions, record_pinned_host_memory, False)
    if not record_cuda:
        return
    _start(
        entries=0 if enabled is None else 1 if enabled == "state" else max_entries,
        level="none" if enabled is None else _LEVELS[context],
        cpp=stacks == "all",
        clear=clear_history,
        skipped=frozenset(skip_actions),
    )


def record_legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    record_context_cpp: bool = False,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] = (),
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    """Stand in for torch._C._cuda_record_memory_history_legacy."""
    _check_actions(skip_actions)
    level = "all" if trace_alloc_record_context else "state" if record_context else "none"
    _start(
        entries=trace_alloc_max_entries if enabled else 0,
        level=level if enabled else "none",
        cpp=record_context_cpp,
        clear=clear_history,
        skipped=frozenset(skip_actions),
    )


def _records_others() -> bool:
    """Can this PyTorch record all but the device's memory?"""
    return "record_cuda" in inspect.signature(torch.cuda.memory._record_memory_history).parameters


def _check_actions(names: Sequence[str]) -> None:
    for name in names:
        if name not in (*ACTIONS.values(), *_OTHER_ACTIONS):
            raise RuntimeError(f"Unknown TraceEntry action: {name}")


def _start(entries: int, level: str, cpp: bool, clear: bool, skipped: frozenset[str]) -> None:
    entries = min(entries, int(_core.LONGEST_JOURNAL))
    changed = entries != _recorder.entries
    _recorder.enabled, _recorder.entries, _recorder.cpp = entries > 0, entries, cpp
    _core.skip_in_journals(
        sum(1 << bit for bit, action in enumerate(_core.JOURNAL_ACTIONS) if ACTIONS.get(action) in skipped)
    )
    if changed or clear:
        _core.keep_process_journals(entries, clear or entries == 0)
    _core.set_recorder(None if level == "none" else _recorder.gather, level)
    if entries == 0 or clear:
        _recorder.losses += 1
        _recorder.prune()


def is_recording() -> bool:
    """Stand in for torch._C._cuda_isHistoryEnabled."""
    return _recorder.enabled


def losses() -> int:
    """How often what was recorded has been thrown away: by switching the history off, or clearing it."""
    return _recorder.losses


def traceback_of(address: int) -> Frames | None:
    """Stand in for torch._C._cuda_allocationTraceback."""
    number = _core.recorded_context(address)
    return _recorder.frames([number]).get(number) if number else None


def hold() -> AbstractContextManager[None]:
    """Keep all stacks that the journals mention, from before they are read until frames_of."""
    return _recorder.hold()


def frames_of(numbers: Iterable[int]) -> dict[int, Frames]:
    """The stacks of these numbers, symbolized."""
    return _recorder.frames(numbers)


def _together(python: Frames, native: Frames) -> Frames:
    """Native frames from our callback on, and the Python frames where the interpreter begins."""
    ours = [index for index, frame in enumerate(native) if frame["name"].startswith("gmlake_torch_")]
    native = native[ours[-1] :] if ours else native
    interpreter = (index for index, frame in enumerate(native) if frame["name"].startswith("_PyEval_EvalFrame"))
    first = next(interpreter, len(native))
    return native[:first] + python + native[first:]
