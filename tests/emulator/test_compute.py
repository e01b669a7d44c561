"""Shadow compute: what programs compute on the emulated device is what they compute on the CPU, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.emulator.running import Emulated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", ["computed_models", "computed_operations"])
def test_programs_agree_with_the_cpu(emulated: Emulated, tmp_path: Path, module: str) -> None:
    differing = tmp_path / "differing.json"
    script = Path(__file__).with_name("computed.py")
    done = emulated(script, "--compute", arguments=(differing, module), env={"PYTHONPATH": str(ROOT)}, timeout=600)
    assert done.status == 0, done.stderr
    found = json.loads(differing.read_text())
    assert len(found) > 20
    assert {name: how for name, how in found.items() if how} == {}
