"""gmlake doctor, as a user runs it."""

from __future__ import annotations

import json

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
    assert {"NVIDIA driver", "PyTorch"} <= set(by_name)


def test_what_is_missing_is_no_failure(cli: Cli) -> None:
    done = cli("doctor", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0
    assert "gmlake" in done.stdout
    assert "Next: gmlake replay" in done.stdout
