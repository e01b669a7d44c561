"""Several traces on several allocators, on all cores.

Threads, not processes: the native loop runs without the interpreter's lock, so threads use every core, share
the columns of a trace instead of copying them, and stop at once when asked to. Results come in the order of
the arguments, whatever finishes first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from gmlake.errors import Error
from gmlake.replay.engine import USUAL, Run, Settings, replay
from gmlake.replay.progress import ProgressDisplay
from gmlake.trace import Trace


class Cancelled(Exception):
    """Raised inside a replay that is no longer wanted."""


def sweep(
    traces: Sequence[Trace],
    allocators: Sequence[str],
    settings: Settings = USUAL,
    jobs: int | None = None,
    display: ProgressDisplay | None = None,
) -> list[Run]:
    """Replay every trace on every allocator; trace by trace, allocators in the order given."""
    pairs = [(trace, allocator) for trace in traces for allocator in allocators]
    return replay_pairs(pairs, settings, jobs, display)


def replay_pairs(
    pairs: Sequence[tuple[Trace, str]],
    settings: Settings = USUAL,
    jobs: int | None = None,
    display: ProgressDisplay | None = None,
    finished: Callable[[int, Run], None] | None = None,
) -> list[Run]:
    """Replay each trace on the allocator beside it; `finished` hears of each, by its number, as soon as it is done."""
    stop = threading.Event()
    one_at_a_time = threading.Lock()

    def one(number: int, trace: Trace, allocator: str) -> Run:
        def progress(stage: str, fed: int) -> None:
            if stop.is_set():
                raise Cancelled
            if display is not None:
                display.update(number, stage, fed)

        if stop.is_set():
            raise Cancelled
        if display is not None:
            display.begin(number, f"{trace.name} · {allocator}", len(trace.kind))
        try:
            run = replay(trace, allocator, settings, progress)
            if finished is not None:
                with one_at_a_time:
                    finished(number, run)
            return run
        except Error as error:
            raise type(error)(f"{trace.name} on {allocator}: {error}") from error
        finally:
            if display is not None:
                display.end(number)

    with ThreadPoolExecutor(max_workers=max(1, jobs or os.cpu_count() or 1)) as pool:
        try:  # an interrupt may come while the replays are being queued
            futures = [pool.submit(one, number, *pair) for number, pair in enumerate(pairs)]
            _wait(futures, display)
        finally:
            stop.set()
    return [future.result() for future in futures]


def _wait(futures: list[Future[Run]], display: ProgressDisplay | None) -> None:
    pending: set[Future[Run]] = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()  # raises what the replay raised, and so ends the others
        if display is not None:
            display.refresh()
