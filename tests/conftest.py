"""Fixtures that several folders use, and a guard: where everything is installed, nothing may be skipped unseen."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

# How long an example takes tells of the machine and what else runs on it, not of right and wrong.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parent.parent

# With REQUIRE_TORCH, as in `make test`, a skip for any other reason is a failure, so that no tier goes missing.
MAY_BE_MISSING = (
    "the CUDA driver library",  # tests/emulator runs the same contract on the emulated one
    "this machine has a CUDA device",
    "this machine does not let a process be traced",
    "recorded traces are not at",
    *([] if os.geteuid() == 0 else ["Chromium is not installed"]),  # make test installs it, if it may
)


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not os.environ.get("REQUIRE_TORCH") or not report.skipped or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not reason.startswith(MAY_BE_MISSING):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be missing: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look at every test that was skipped."""
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole files."""
    report = yield
    _forbid_skip(report)
    return report


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Recorded histories and traces, which are too large for the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"recorded traces are not at {folder}")
    return folder
