"""gmlake doctor, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmlake.emulator.standins import find_torch

from .conftest import Cli


def test_json(cli: Cli) -> None:
    done = cli("doctor", "--json")
    report = json.loads(done.stdout)
    assert set(report) == {"ok", "checks"}
    assert done.returncode == (0 if report["ok"] else 1)
    for check in report["checks"]:
        assert set(check) == {"name", "state", "found", "advice"}
        assert check["state"] == "ok" or check["advice"]
    by_name = {check["name"]: check for check in report["checks"]}
    assert by_name["gmlake"]["state"] == "ok"
    assert {"NVIDIA driver", "PyTorch", "bridge", "emulated device"} <= set(by_name)
    assert by_name["emulated device"]["state"] == by_name["PyTorch"]["state"]


def test_the_bridge(cli: Cli) -> None:
    """It says which way GMLAKE=1 takes, and why."""
    if find_torch() is None:
        pytest.skip("PyTorch is not installed")
    for variable, state in (("1", "ok"), ("0", "missing")):
        done = cli("doctor", "--json", env={"GMLAKE_BRIDGE": variable})
        [check] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "bridge"]
        assert check["state"] == state, check
        assert ("GMLAKE=1 uses it" if state == "ok" else "turned off by GMLAKE_BRIDGE=0") in check["found"]
        assert ("MemPool" in check["advice"]) == (state == "missing")


@pytest.mark.parametrize(
    ("variables", "state", "found"),
    [
        ({}, "ok", "sets no option of GMLake"),
        ({"GMLAKE": "1", "GMLAKE_TARGET": "0.9"}, "ok", "GMLAKE, GMLAKE_TARGET: understood"),
        ({"GMLAKE_TARGET": "abc"}, "broken", "GMLAKE_TARGET: option target needs a number, not 'abc'"),
        ({"GMLAKE_TARGTE": "0.9"}, "broken", "GMLAKE_TARGTE: unknown option 'targte'"),
        ({"GMLAKE": "perhaps"}, "broken", "GMLAKE=perhaps means nothing"),
    ],
)
def test_the_environment(cli: Cli, variables: dict[str, str], state: str, found: str) -> None:
    done = cli("doctor", "--json", env=variables)
    [check] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "environment"]
    assert check["state"] == state, check
    assert found in check["found"]
    assert done.returncode == (0 if state == "ok" else 1)


def test_what_is_missing_is_no_failure(cli: Cli) -> None:
    done = cli("doctor", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0
    assert "gmlake" in done.stdout
    assert "Next: gmlake replay" in done.stdout


def test_marks_can_be_told_apart_without_unicode(cli: Cli) -> None:
    done = cli("doctor", env={"CUDA_VISIBLE_DEVICES": "", "PYTHONIOENCODING": "ascii"})
    assert done.stdout.startswith("+ gmlake: ")
    assert "?" not in done.stdout


def test_the_emulated_device_without_pytorch(cli: Cli, tmp_path: Path) -> None:
    """A torch that is no CUDA build hides the one that is there."""
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").touch()
    done = cli("doctor", "--json", env={"PYTHONPATH": str(tmp_path)})
    [check] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "emulated device"]
    assert check["state"] == "broken"
    assert "without CUDA" in check["found"]


def test_stand_ins_are_made_once(cli: Cli, tmp_path: Path) -> None:
    if find_torch() is None:
        pytest.skip("PyTorch is not installed")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "GMLAKE_BRIDGE": "0"}
    assert "stand-ins now made" in cli("doctor", env=env).stdout.replace("\n", " ")
    assert "stand-ins cached" in cli("doctor", env=env).stdout.replace("\n", " ")
