"""Records the history of PyTorch's own allocator, and where iterations begin, into one trace per device.

PyTorch keeps the history (torch.cuda.memory._record_memory_history). It is taken over from time to time, after a step,
and becomes a trace when the process ends, without a file in between. It does not know iterations nor empty_cache: those
are noted here, each with the number of allocations and frees made so far, which is exact where clocks are not.

An iteration ends with a step of an optimizer after a backward pass. Further steps before the next backward (ZeRO-3
steps in sub-groups, some programs have two optimizers) only move its end. The first one begins with the first forward
pass of a module.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from gmlake.emulator.inside import report
from gmlake.emulator.inside.settings import Settings
from gmlake.torch import recording as lending

Count = tuple[int, int]  # allocations and frees

ENTRIES = 10_000_000  # of the history; PyTorch keeps the last ones
COLLECT = 100_000  # allocations; after so many the history is taken over


def start(settings: Settings) -> None:
    """Record from the moment that CUDA is initialised."""
    recording = lending.lender = Recording(settings)
    torch.cuda._lazy_call(recording.begin)
    report.add("traces", recording.finish)


class Recording:
    """The recording of one process."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is recorded yet."""
        self._settings = settings
        self._options: dict[str, Any] = {}
        self._begun = False
        self._problem: str | None = None  # why nothing is recorded
        self._collection: Any = None
        self._collected = 0  # allocations
        self._shared = False  # the program looks at the history too, which must then be whole
        self._records = False  # the program has not stopped its own recording
        self._lent = False  # to gmlake.record()
        # Moments, as allocations and frees so far on every device.
        self._starts: list[list[Count]] = []  # of the first iteration
        self._steps: list[list[Count]] = []
        self._trims: list[list[Count]] = []
        self._backward = False  # since the last step

    def begin(self) -> None:
        """CUDA was initialised."""
        self._begun = True
        self._original = torch.cuda.memory._record_memory_history
        self._known = inspect.signature(self._original).parameters
        self._options = {"context": "alloc" if self._settings.stacks else None, "stacks": "python"}
        if "skip_actions" in self._known:  # a third of all events, which a trace does not need
            self._options["skip_actions"] = ["free_completed"]
        try:
            self._record("all", **self._options)
        except RuntimeError as error:  # not every allocator keeps a history
            self._problem = str(error).partition("\n")[0]
            return
        torch.cuda.memory._record_memory_history = self._record_for_program
        self._watch_iterations()
        for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
            empty = getattr(torch._C, name, None)
            if empty is not None:
                setattr(torch._C, name, _before(empty, lambda: self._trims.append(counts_now())))

    def finish(self) -> object:
        """Write the traces; what they hold goes into the report."""
        if not self._begun:
            return None
        if self._problem is not None:
            return {"problem": self._problem}
        return self._traces().write(self._settings.session, counts_now(), self._marks(), self._trims)

    def _traces(self) -> Any:
        """Made when it is first needed: it brings numpy along."""
        if self._collection is None:
            from gmlake.emulator.inside.conversion import Collection

            self._collection = Collection(ENTRIES)
        return self._collection

    def _collect(self, made: int) -> None:
        """Take the history over, if it has become long and PyTorch can forget it."""
        if made - self._collected < COLLECT or self._shared or self._lent or "clear_history" not in self._known:
            return
        self._collected = made
        self._take_over()

    def _take_over(self) -> None:
        """Collect what has happened, and let PyTorch forget it."""
        self._traces().collect()
        if "clear_history" in self._known:
            self._record("all", **self._options, clear_history=True)
        else:  # stopping does it too
            self._original(None)
            self._record("all", **self._options)

    def lend(self) -> bool:
        """Let gmlake.record() have the history to itself, unless the program records already."""
        torch.cuda.init()  # it is recorded from then on, and that must not begin in the midst of the block
        if not self._begun or self._problem is not None or self._records or self._lent:
            return False
        self._take_over()
        self._lent = True
        return True

    def take_back(self) -> None:
        """All that is in the history is still ours to collect."""
        self._lent = False

    def _marks(self) -> list[list[Count]]:
        """Where iterations begin: with the first forward pass, and after every step but the last."""
        if not self._steps:
            return []
        first = self._starts or [[(0, 0)] * torch.cuda.device_count()]
        return first + self._steps[:-1]

    def _record_for_program(self, enabled: Any = "all", *args: Any, **options: Any) -> None:
        """The program records too: it may, but neither stop our recording nor shorten it."""
        self._records = bool(enabled)
        if isinstance(enabled, bool) or enabled is None:
            return
        self._shared = True
        for ours in ("max_entries", "clear_history", "skip_actions"):
            options.pop(ours, None)
        self._record(enabled, *args[:2], **options)

    def _record(self, enabled: Any, *args: Any, **options: Any) -> None:
        self._original(enabled, *args, **options, max_entries=ENTRIES)

    def _watch_iterations(self) -> None:
        def stepped(*_: Any) -> None:
            if self._steps and not self._backward:
                self._steps.pop()
            self._steps.append(counts_now())
            self._backward = False
            self._collect(sum(made for made, _ in self._steps[-1]))

        def went_backward() -> None:
            self._backward = True

        def went_forward(*_: Any) -> None:
            if torch.is_grad_enabled() and not self._starts:
                self._starts.append(counts_now())
                first.remove()

        register_optimizer_step_post_hook(stepped)
        first = register_module_forward_pre_hook(went_forward)
        # All of autograd goes through this function, whoever calls it.
        run = _before(torch.autograd.graph._engine_run_backward, went_backward)
        torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run


def _before(function: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        note()
        return function(*args, **options)

    return noted


def counts_now() -> list[Count]:
    """Allocations and frees so far, of every device."""
    found = []
    for number in range(torch.cuda.device_count()):
        count = torch._C._cuda_memoryStats(number)["allocation"]["all"]
        found.append((int(count["allocated"]), int(count["freed"])))
    return found
