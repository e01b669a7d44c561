"""Recording: the real code runs on the emulated device and gives the bundled trace, byte for byte."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gmlake.emulator.standins import find_torch
from gmlake.errors import UserError
from gmlake.workloads.campaign import record_all
from gmlake.workloads.catalogue import select
from gmlake.workloads.recording import VERSIONS, read_manifest, record
from gmlake.workloads.running import BUNDLED
from gmlake.workloads.workload import Workload
from tests.emulator.running import require

TINY = ("tiny/none/LR/1gpu/b8/var", "tiny/fsdp2/LR/2gpu/b8/var", "tiny/gemini/LR/2gpu/b8/var")


@pytest.fixture(autouse=True)
def packages() -> None:
    for package in VERSIONS:
        require(package)
    assert find_torch() is not None


def ignore(_workload: Workload, _done: int) -> None:
    pass


def test_a_recording_is_the_bundled_trace(tmp_path: Path) -> None:
    chosen = select([*TINY[1:]])
    progress: dict[str, list[int]] = {}
    outcome = record_all(
        chosen, tmp_path, 2, False, lambda workload, done: progress.setdefault(workload.id, []).append(done)
    )
    assert outcome.failed == {}
    assert progress == {workload.id: list(range(1, 17)) for workload in chosen}
    known = read_manifest(BUNDLED)
    for workload, recorded in zip(chosen, sorted(outcome.recorded, key=lambda r: r.id), strict=True):
        assert (tmp_path / workload.file_name).read_bytes() == (BUNDLED / workload.file_name).read_bytes()
        assert recorded.peak_reserved == known[recorded.id]["peak_reserved"]
    with (tmp_path / "manifest.jsonl").open("ab") as manifest:
        manifest.write(b"\xff}\n")  # damaged: the others are known all the same
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = record_all(chosen, tmp_path, 2, False, ignore)
    assert (again.recorded, again.kept) == ([], [workload.id for workload in chosen])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_job_that_fails_is_one_sentence_and_the_others_are_kept(tmp_path: Path) -> None:
    [good] = select([TINY[0]])
    bad = replace(good, id="bad", model=good.model | {"config": "NoSuchConfig"})
    outcome = record_all([bad, good], tmp_path, 1, False, ignore)
    assert outcome.failed == {
        "bad": "bad could not be recorded: AttributeError: module transformers has no attribute NoSuchConfig"
    }
    assert [recorded.id for recorded in outcome.recorded] == [good.id]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.jsonl", good.file_name]


def test_a_worker_that_is_killed_is_one_sentence(tmp_path: Path) -> None:
    [workload] = select([TINY[0]])
    done = threading.Event()
    killer = threading.Thread(target=kill_job, args=(done,))
    killer.start()
    outcome = record_all([workload], tmp_path, 1, False, ignore)
    done.set()
    killer.join()
    assert list(outcome.failed.values()) == [
        f"{workload.id} could not be recorded: its process was killed by signal 9; is there enough memory? Try --jobs 1"
    ]
    assert list(tmp_path.iterdir()) == []


def kill_job(done: threading.Event) -> None:
    """Kill the first child of ours that runs a job."""
    while not done.wait(0.05):
        for children in Path("/proc/self/task").glob("*/children"):
            for child in children.read_text().split():
                if b"gmlake.workloads.jobs" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)
                    return


def test_a_stop_ends_the_job_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Exception) as caught:
        record(select([TINY[0]])[0], tmp_path / "x.gmt", lambda _: None, stop)
    assert type(caught.value).__name__ == "Interrupted"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be made: Not a directory; choose another with -o"):
        record_all(select([TINY[0]]), tmp_path / "file" / "traces", 1, False, ignore)
