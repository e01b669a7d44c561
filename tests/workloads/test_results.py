"""Results that are kept: never made twice, never taken for another's, never lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmlake.errors import UserError
from gmlake.replay import Settings
from gmlake.workloads.catalogue import select
from gmlake.workloads.results import FILE, Kept, key
from gmlake.workloads.running import BUNDLED, Task, run, settings

TINY = select(["tiny"])
QUICKLY = settings(smallest=False)
PAIR = ("gmlake", "caching")


def refuse(tasks: list[Task], *_: object) -> None:
    assert not tasks


def test_the_second_run_replays_nothing(tmp_path: Path) -> None:
    first = run(TINY, PAIR, QUICKLY, Kept(tmp_path))
    again = run(TINY, PAIR, QUICKLY, Kept(tmp_path), elsewhere=refuse)  # type: ignore[arg-type]
    assert again == first
    assert [(result.trace, result.allocator) for result in first] == [
        (workload.id, allocator) for workload in TINY for allocator in PAIR
    ]
    assert len((tmp_path / FILE).read_text().splitlines()) == len(first)


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = run(TINY, PAIR, QUICKLY, Kept(tmp_path))
    lines = (tmp_path / FILE).read_text().splitlines(keepends=True)
    (tmp_path / FILE).write_text("".join(lines[:3]) + lines[3][:100])  # killed while it wrote the fourth
    left: list[Task] = []
    with pytest.raises(KeyboardInterrupt):
        run(TINY, PAIR, QUICKLY, Kept(tmp_path), elsewhere=lambda tasks, *_: interrupt(left, tasks))
    assert len(left) == len(whole) - 3
    strip = {result.trace + result.allocator: result.peak_reserved for result in whole}
    again = run(TINY, PAIR, QUICKLY, Kept(tmp_path))
    assert {result.trace + result.allocator: result.peak_reserved for result in again} == strip


def interrupt(left: list[Task], tasks: object) -> None:
    left.extend(tasks)  # type: ignore[arg-type]
    raise KeyboardInterrupt


def test_a_key_depends_on_trace_allocator_and_settings() -> None:
    first, second = (BUNDLED / workload.file_name for workload in TINY[:2])
    keys = {
        key(path, allocator, how)
        for path in (first, second)
        for allocator in ("caching", "caching:max_split_size_mb=128")
        for how in (QUICKLY, Settings(), settings(smallest=True))
    }
    assert len(keys) == 12


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    [result] = run(TINY[:1], ["gmlake"], settings(smallest=True), Kept(tmp_path))
    entry = json.loads((tmp_path / FILE).read_text())
    [again] = run(TINY[:1], ["gmlake"], settings(smallest=True), Kept(tmp_path))
    assert again == result
    assert again.at_smallest_capacity is not None
    assert entry["result"] == json.loads(json.dumps(result.to_json()))


def test_a_folder_that_cannot_hold_them_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"results cannot be kept in .*; choose another with --state"):
        Kept(tmp_path / "file" / "state")


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    run(TINY[:1], PAIR[:1], QUICKLY, Kept(tmp_path))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"\xff\xfe junk\n")
    run(TINY[:1], PAIR[:1], QUICKLY, Kept(tmp_path), elsewhere=refuse)  # type: ignore[arg-type]
