"""gmlake fidelity, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import MIB, Cli, assert_refused

BASE = 0x7F00_0000_0000


def event(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0}


def history(*, second: int) -> dict[str, Any]:
    """Two blocks in a segment of 20 MiB, the second where PyTorch, or somebody else, put it."""
    events = [
        event("segment_alloc", BASE, 20 * MIB),
        event("alloc", BASE, 4 * MIB),
        event("alloc", second, 4 * MIB),
        *(event(action, at, 4 * MIB) for at in (BASE, second) for action in ("free_requested", "free_completed")),
    ]
    block = {"address": BASE, "size": 20 * MIB, "requested_size": 0, "state": "inactive"}
    segment = {"address": BASE, "total_size": 20 * MIB, "stream": 0, "segment_type": "large", "blocks": [block]}
    return {"segments": [segment | {"device": 0}], "device_traces": [events]}


@pytest.fixture
def faithful(tmp_path: Path) -> Path:
    path = tmp_path / "faithful.json"
    path.write_text(json.dumps(history(second=BASE + 4 * MIB)))
    return path


def test_a_history_that_pytorch_recorded(cli: Cli, faithful: Path) -> None:
    done = cli("fidelity", faithful)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("faithful")] == [
        ["faithful", "7", "2", "of", "2", "1", "of", "1", "0"]
    ]
    assert "Every decision is the one that PyTorch took." in done.stdout
    assert f"Next: gmlake replay {faithful}" in done.stdout


def test_decisions_that_differ_are_counted_and_shown(cli: Cli, faithful: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(history(second=BASE + 8 * MIB)))
    done = cli("fidelity", faithful, other)
    assert done.returncode == 0
    assert "Every decision" not in done.stdout
    assert f"other, event 2: {4 * MIB} bytes: at {BASE + 4 * MIB:#x}, not {BASE + 8 * MIB:#x}" in done.stdout
    found = json.loads(cli("fidelity", faithful, other, "--json").stdout)["histories"]
    assert [(each["history"], each["allocations_at_address"], len(each["differences"])) for each in found] == [
        ("faithful", 2, 0),
        ("other", 1, 1),
    ]


def test_what_is_no_history_of_the_default_allocator(cli: Cli, faithful: Path, tmp_path: Path) -> None:
    assert_refused(cli("fidelity", "demo"), "demo: no such file")  # no bundled trace is a snapshot
    whole_trace = tmp_path / "trace.gmt"
    assert cli("convert", faithful, "-o", whole_trace).returncode == 0
    assert_refused(cli("fidelity", whole_trace), "is not a memory snapshot")
    assert cli("convert", faithful, "-o", tmp_path / "converted.pickle").returncode == 0
    assert_refused(cli("fidelity", tmp_path / "converted.pickle"), "has addresses that gmlake convert chose")
    assert_refused(cli("fidelity", faithful, "--device", 1), "has no device 1, expected 0 to 0")
    broken = tmp_path / "broken.json"
    whole = history(second=BASE + 4 * MIB)
    for keys, change in (
        (("segments", 0), {"is_expandable": True}),
        (("segments", 0), {"blocks": None}),
        (("device_traces", 0, 1), {"addr": "here"}),
        (("device_traces", 0, 2), {"size": None}),
    ):
        damaged = json.loads(json.dumps(whole))
        at = damaged
        for key in keys:
            at = at[key]
        at.update(change)
        broken.write_text(json.dumps(damaged))
        assert_refused(cli("fidelity", broken), f"{broken}: ")
