"""The real DeepSpeed, unpatched, as rank 0 of four."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.running import Emulated, require

JOB = Path(__file__).parent / "jobs" / "zero3.py"
PARAMETERS = 4 * (2 * 512 * 2048 + 2048 + 512)
MIB = 1 << 20


@pytest.fixture(scope="module")
def runs(emulated: Emulated) -> dict[str, dict[str, Any]]:
    require("deepspeed")
    found = {}
    for where in ("device", "offload"):
        done = emulated(JOB, "--world-size", 4, arguments=(where,))
        assert done.status == 0, done.stderr[-4000:]
        assert done.report["unimplemented"] == []
        found[where] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("where", ["device", "offload"])
def test_zero_3_takes_its_steps(runs: dict[str, dict[str, Any]], where: str) -> None:
    run = runs[where]
    assert (run["parameters"], run["world"]) == (PARAMETERS, 4)
    assert (run["steps"], run["skipped"]) == (3, 0)  # no overflow: what is not computed reads as zero


def test_the_device_holds_a_quarter(runs: dict[str, dict[str, Any]]) -> None:
    share = PARAMETERS // 4
    assert share * 2 <= runs["device"]["weights"] < share * 2 + (64 << 10)
    # Weights and gradients of two bytes, a copy of four and two moments.
    assert share * 16 <= runs["device"]["allocated"] < share * 16 + 24 * MIB


def test_offloading_leaves_only_buffers(runs: dict[str, dict[str, Any]]) -> None:
    assert runs["offload"]["weights"] == 0
    saved = runs["device"]["allocated"] - runs["offload"]["allocated"]
    assert saved > PARAMETERS // 4 * 12  # the moments, the copy and the weights are elsewhere
    assert runs["offload"]["peak"] < runs["device"]["peak"]
