"""The rivals of the replay against the real PyTorch: the same bytes reserved after every event of its history.

The programs run on the emulated device, in one process for each of PyTorch's allocators (programs.py); each history is
then fed to the rival that claims to be that allocator (feeding.py). The smaller card makes both give memory back and
try again, and fail at the same requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.feeding import Comparison, Feeder
from tests.emulator.running import Emulated

PROGRAM = Path(__file__).with_name("programs.py")
ORDINARY = (
    "mlp",
    "transformer",
    "checkpointing",
    "offload",
    "streams",
    "varying",
    "optimizers",
    "graphs",
    "pools",
    "small",
    "edges",
    "emptied",
    "threads",
)
CROWDED = ("crowded", "crowded_streams")
# PyTorch's setting, and the rival that should decide alike.
SETTINGS = {
    "native": ("", "caching"),
    "expandable": ("expandable_segments:True", "expandable"),
    "max_split": ("max_split_size_mb:32", "caching:max_split_size_mb=32"),
    "divisions": ("roundup_power2_divisions:4", "caching:roundup_power2_divisions=4"),
}
Recorded = tuple[dict[str, Any], Comparison]


class Histories:
    """Recorded when they are first asked for."""

    def __init__(self, emulated: Emulated, folder: Path) -> None:
        self.emulated = emulated
        self.folder = folder
        self.known: dict[tuple[str, bool], Recorded] = {}

    def get(self, setting: str, crowded: bool) -> Recorded:
        if (setting, crowded) not in self.known:
            self.known[setting, crowded] = self.record(setting, crowded)
        return self.known[setting, crowded]

    def record(self, setting: str, crowded: bool) -> Recorded:
        conf, rival = SETTINGS[setting]
        output = self.folder / f"{setting}-{crowded}.json"
        names = CROWDED if crowded else ORDINARY
        # Kernels that take time keep what other streams use from being free at once.
        options = ["--kernel-us", "40", *(["--memory", "1GiB"] if crowded else [])]
        env = {"PYTORCH_ALLOC_CONF": conf} if conf else {}
        done = self.emulated(PROGRAM, *options, arguments=(output, *names), env=env)
        assert done.status == 0, done.stderr
        recorded = json.loads(output.read_text())
        return recorded, Feeder(rival, recorded).run()


@pytest.fixture(scope="module")
def histories(emulated: Emulated, tmp_path_factory: pytest.TempPathFactory) -> Histories:
    return Histories(emulated, tmp_path_factory.mktemp("histories"))


def check(recorded: dict[str, Any], comparison: Comparison, program: str) -> None:
    differences = [difference for difference in comparison.differences if difference.program == program]
    assert differences == []
    assert comparison.compared[program] > 100


@pytest.mark.parametrize("program", ORDINARY)
@pytest.mark.parametrize("setting", SETTINGS)
def test_same_bytes_after_every_event(histories: Histories, setting: str, program: str) -> None:
    check(*histories.get(setting, crowded=False), program)


@pytest.mark.parametrize("program", CROWDED)
@pytest.mark.parametrize("setting", SETTINGS)
def test_same_bytes_when_memory_runs_short(histories: Histories, setting: str, program: str) -> None:
    recorded, comparison = histories.get(setting, crowded=True)
    check(recorded, comparison, program)
    assert comparison.failures > 5
    assert comparison.retries == recorded["retries"]


@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
def test_peaks_are_those_that_pytorch_reports(histories: Histories, setting: str, crowded: bool) -> None:
    recorded, comparison = histories.get(setting, crowded)
    assert comparison.ours == comparison.theirs == recorded["reserved"]["peak"]
