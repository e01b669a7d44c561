"""The same replays on a Ray cluster that is running already: one Ray task for every trace and allocator.

Ray does the rest: it spreads the tasks, tries again where a worker died, and says what is wrong with the cluster. The
machines of the cluster need gmlake, in the same version; traces are small and travel with the task.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gmlake.errors import UserError
from gmlake.replay import Result, Settings, replay
from gmlake.trace import read_trace
from gmlake.workloads.running import Elsewhere, Report, Task

TRIES_AGAIN = 3  # of a task whose worker died
PATIENCE = 5  # seconds until a cluster must answer


def on_ray(address: str, began: Callable[[int], None], ended: Callable[[], None]) -> Elsewhere:
    """A way to run tasks on the cluster at `address`; connects only when there is something to run."""
    ray = _import()

    def run(tasks: Sequence[Task], how: Settings, report: Report) -> None:
        if not tasks:
            return
        began(len(tasks))
        try:
            _connect(ray, address)
            _run(ray, tasks, how, report, ended)
        finally:
            ray.shutdown()

    return run


def _run(ray: Any, tasks: Sequence[Task], how: Settings, report: Report, ended: Callable[[], None]) -> None:
    remote = ray.remote(num_cpus=1, max_retries=TRIES_AGAIN)(replay_there)
    waiting = {remote.remote(task.trace.read_bytes(), task.workload.id, task.allocator, how): task for task in tasks}
    failed: dict[str, str] = {}
    while waiting:
        [done], _ = ray.wait(list(waiting), num_returns=1)
        task = waiting.pop(done)
        try:
            report(task, Result.from_json(ray.get(done)))
        except ray.exceptions.RayError as error:
            failed[f"{task.workload.id} on {task.allocator}"] = str(error).strip().splitlines()[-1]
        ended()
    if failed:
        name, why = next(iter(failed.items()))
        raise UserError(
            f"{len(failed)} of {len(tasks)} replays failed on the cluster, the first {name}: {why}; "
            "what was finished is kept, run it again for the rest"
        )


def replay_there(data: bytes, name: str, allocator: str, how: Settings) -> dict[str, Any]:
    """One replay, on a machine of the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.gmt"
        path.write_bytes(data)
        trace = replace(read_trace(path), name=name)
    return replay(trace, allocator, how).result.to_json()


def _import() -> Any:
    try:
        import ray
    except ImportError:
        raise UserError("--ray needs Ray here and on the cluster; install it with: pip install 'gmlake[ray]'") from None
    return ray


def _connect(ray: Any, address: str) -> None:
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:  # the latter two are Ray's
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"no Ray cluster answers at '{address}' ({why}); start one with: ray start --head, and give its address "
            "or 'auto'"
        ) from None


def _knock(address: str) -> None:
    """OSError if nobody listens: Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), PATIENCE).close()
