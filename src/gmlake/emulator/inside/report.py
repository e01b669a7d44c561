"""What this process needed, written when it ends: peaks per device, retries, what others here have found.

Nothing is written by a process that never used CUDA, nor by a child that was forked after its parent had. The end is
the interpreter's own, or SIGTERM where the program has no handler for it; after SIGKILL or a crash there is no report,
and `gmlake run` says so.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing.util
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from gmlake.emulator.inside import native
from gmlake.emulator.inside.settings import Settings

_PEAKS = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
_COUNTS = ("num_alloc_retries", "num_ooms")
_contributors: dict[str, Callable[[], object]] = {}


def add(name: str, contribute: Callable[[], object]) -> None:
    """Put `contribute()`, called at the end, into the report under this name; None leaves it out."""
    _contributors[name] = contribute


def start(settings: Settings) -> None:
    """Wait for CUDA to be used."""
    report = Report(settings)
    torch.cuda._lazy_call(report.begin)


class Report:
    """The report of one process."""

    def __init__(self, settings: Settings) -> None:
        """Nothing happens before CUDA is initialised."""
        self._settings = settings
        self._process = 0  # which CUDA was initialised in
        self._began = 0.0
        self._ended: str | None = None
        self._interrupted = False  # an interrupt that the program did not catch ends it
        self._before: dict[int, dict[str, int]] = {}  # peaks and counts before the program reset them

    def begin(self) -> None:
        """CUDA was initialised in this process, which may be a fork of the one that imported torch."""
        self._process = os.getpid()
        self._began = time.monotonic()
        atexit.register(self.finish)
        multiprocessing.util.Finalize(None, self.finish, exitpriority=0)  # its forked children do without atexit
        self._watch_exceptions()
        self._watch_resets()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminate)

    def finish(self) -> None:
        """Write the report, once."""
        if self._process != os.getpid():
            return
        self._process = 0
        try:
            self._write()
        finally:
            if self._interrupted:
                _die_of_the_interrupt()

    def _write(self) -> None:
        # A thread of autograd may still be putting away its last task, for which it needs the interpreter's lock. If
        # the interpreter is gone by then, the process aborts: a GPU is slow enough for this not to happen.
        time.sleep(0.05)
        try:
            found = self._collect()
        except Exception as error:  # the program's own exit status must not suffer from our report
            found = {"problem": f"{type(error).__name__}: {error}"}
        common: dict[str, Any] = {"pid": os.getpid(), "argv": sys.argv, "rank": _rank(), "ended": self._ended}
        path = self._settings.session / f"report-{os.getpid()}.json"
        try:
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(common | found))
            partial.replace(path)
        except OSError as error:
            print(f"gmlake: the report of this process could not be written: {error}", file=sys.stderr)

    def _collect(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "seconds": time.monotonic() - self._began,
            "host_peak": _host_peak(),
            "backend": torch.cuda.memory.get_allocator_backend(),
            "devices": [row for row in map(self._device, range(torch.cuda.device_count())) if row is not None],
        }
        if self._settings.device is not None:
            found["hazards"] = native.hazards() if native.loaded() else None
        for name, contribute in _contributors.items():
            try:
                value = contribute()
            except Exception as error:
                value = {"problem": f"{type(error).__name__}: {error}"}
            if value is not None:
                found[name] = value
        if found["backend"] == "native":
            found["expandable"] = self._expandable()
        return found

    def _expandable(self) -> bool | None:
        """Whether PyTorch's own allocator has expandable segments; None where finding out is not cheap or possible."""
        with contextlib.suppress(Exception):
            return bool(torch._C._cuda_memorySnapshot((0, 0, False))["allocator_settings"]["expandable_segments"])
        if self._settings.record is None:  # older versions give no snapshot without the whole history
            with contextlib.suppress(Exception):
                return bool(torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"])
        return None

    def _device(self, number: int) -> dict[str, Any] | None:
        """One device, or None if this process never allocated on it."""
        peaks: dict[str, int | None] = dict.fromkeys(_PEAKS)
        retries = ooms = 0
        try:
            statistics = torch._C._cuda_memoryStats(number)
            before = self._before.get(number, {})
            peaks = {name: max(_peak(statistics, name), before.get(name, 0)) for name in _PEAKS}
            retries, ooms = (statistics.get(name, 0) + before.get(name, 0) for name in _COUNTS)
        except RuntimeError:  # an allocator that was plugged in keeps no statistics
            pass
        on_device = native.peak(number) if self._settings.device is not None and native.loaded() else None
        if not any(peaks.values()) and not on_device and not ooms:
            return None
        properties = torch.cuda.get_device_properties(number)
        return {
            "device": native.physical(number),
            "name": properties.name,
            "memory": properties.total_memory,
            **{f"peak_{name.removesuffix('_bytes')}": value for name, value in peaks.items()},
            "peak_on_device": on_device,
            "retries": retries,
            "out_of_memory": ooms,
        }

    def _watch_exceptions(self) -> None:
        previous = sys.excepthook

        def note(kind: Any, error: Any, trace: Any) -> None:
            self._interrupted = kind is KeyboardInterrupt and not hasattr(sys, "ps1")  # a prompt outlives it
            lines = str(error).splitlines()
            self._ended = f"{kind.__module__}.{kind.__qualname__}: {lines[0] if lines else ''}".removeprefix(
                "builtins."
            )
            previous(kind, error, trace)

        sys.excepthook = note

    def _watch_resets(self) -> None:
        """A program that resets statistics does it for itself: the largest peak counts, and the sum of the counts."""
        for kind, keep in (("Peak", self._keep_peaks), ("Accumulated", self._keep_counts)):
            for name in (f"_cuda_reset{kind}MemoryStats", f"_accelerator_reset{kind}Stats"):
                reset = getattr(torch._C, name, None)
                if reset is not None:
                    setattr(torch._C, name, _after(keep, reset))

    def _keep_peaks(self, device: int) -> None:
        statistics = torch._C._cuda_memoryStats(device)
        before = self._before.setdefault(device, {})
        for peak in _PEAKS:
            before[peak] = max(_peak(statistics, peak), before.get(peak, 0))

    def _keep_counts(self, device: int) -> None:
        statistics = torch._C._cuda_memoryStats(device)
        before = self._before.setdefault(device, {})
        for name in _COUNTS:
            before[name] = statistics.get(name, 0) + before.get(name, 0)

    def _terminate(self, number: int, _frame: object) -> None:
        self._ended = "SIGTERM"
        self.finish()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _die_of_the_interrupt() -> None:
    """Let the interpreter end itself with SIGINT, as it does after an interrupt that nobody caught.

    It forgets about that when a text is executed, and modules that come in for a trace do so (dataclasses does). An
    interrupt that ends a text reminds it.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")


def _after(keep: Callable[[int], None], reset: Callable[[int], Any]) -> Callable[[int], Any]:
    def run(device: int) -> Any:
        keep(device)
        return reset(device)

    return run


def _peak(statistics: dict[str, Any], name: str) -> int:
    return int(statistics[name]["all"]["peak"]) if name in statistics else 0


def _rank() -> int | None:
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else None


def _host_peak() -> int | None:
    """The most memory of the host that this process had."""
    with open("/proc/self/status") as status:  # noqa: PTH123 (no path to be made of it)
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return None
