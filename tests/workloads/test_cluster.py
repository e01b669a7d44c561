"""The same sweep on a Ray cluster, which the test starts on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gmlake.errors import UserError
from gmlake.replay import ALLOCATORS, Result
from gmlake.workloads.catalogue import select
from gmlake.workloads.cluster import on_ray
from gmlake.workloads.results import Kept
from gmlake.workloads.running import run, settings
from tests.emulator.running import require

TINY = select(["tiny"])
QUICKLY = settings(smallest=False)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    require("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield cluster.address
    cluster.shutdown()


def without_time(results: list[Result]) -> list[dict[str, Any]]:
    return [{name: value for name, value in r.to_json().items() if name != "cpu_seconds"} for r in results]


def test_the_cluster_finds_what_this_machine_finds(address: str, tmp_path: Path) -> None:
    announced: list[int] = []
    ended: list[None] = []
    there = on_ray(address, announced.append, lambda: ended.append(None))
    far = run(TINY, ALLOCATORS, QUICKLY, Kept(tmp_path / "far"), elsewhere=there)
    near = run(TINY, ALLOCATORS, QUICKLY, Kept(tmp_path / "near"))
    assert without_time(far) == without_time(near)
    assert (announced, len(ended)) == ([len(near)], len(near))


def test_a_worker_that_dies_every_time_loses_nothing_else(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gmlake.workloads import cluster

    there = cluster.replay_there

    def deadly(data: bytes, name: str, allocator: str, how: Any) -> dict[str, Any]:
        if allocator == "paper":
            os.kill(os.getpid(), 9)
        return there(data, name, allocator, how)

    monkeypatch.setattr(cluster, "replay_there", deadly)
    monkeypatch.setattr(cluster, "TRIES_AGAIN", 0)
    kept = Kept(tmp_path)
    with pytest.raises(
        UserError, match=r"1 of 4 replays failed on the cluster, the first tiny/none.* on paper: .*kept"
    ):
        run(TINY[:1], ALLOCATORS, QUICKLY, kept, elsewhere=on_ray(address, lambda _: None, lambda: None))
    monkeypatch.undo()
    announced: list[int] = []
    results = run(TINY[:1], ALLOCATORS, QUICKLY, kept, elsewhere=on_ray(address, announced.append, lambda: None))
    assert (announced, len(results)) == ([1], 4)


@pytest.mark.parametrize("wrong", ["127.0.0.1:1", "nonsense"])
def test_no_cluster_is_one_sentence(tmp_path: Path, wrong: str) -> None:
    require("ray")
    done = subprocess.run(
        [sys.executable, "-m", "gmlake", "workloads", "run", "tiny", "--ray", wrong, "--state", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gmlake: error: no Ray cluster answers at '{wrong}'")
    assert done.stderr.count("\n") == 1
