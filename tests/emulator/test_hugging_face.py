"""The real transformers, PEFT and accelerate: an unmodified Trainer on one device and on four."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.emulator.running import Emulated, require

JOB = Path(__file__).parent / "jobs" / "lora.py"


def train(emulated: Emulated, *options: object, arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    for package in ("transformers", "peft", "accelerate"):
        require(package)
    done = emulated(JOB, *options, arguments=arguments, env={"HF_HUB_OFFLINE": "1"})
    assert done.status == 0, done.stderr[-4000:]
    assert done.report["unimplemented"] == []
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    assert found["steps"] == 4
    return found


def test_lora_with_checkpointing_and_a_saved_adapter(emulated: Emulated) -> None:
    run = train(emulated)
    assert (run["world"], run["kind"]) == (1, "PeftModelForCausalLM")
    # Two matrices of 256 by 4 for two projections in each of four layers.
    assert run["trained"] == 4 * 2 * 2 * 256 * 4
    assert run["allocated"][-1] - run["allocated"][0] < 4096  # nothing grows
    assert run["peak"] > run["allocated"][0] > 2 * run["parameters"]


def test_fsdp2_on_four_ranks(emulated: Emulated) -> None:
    run = train(emulated, "--world-size", 4, arguments=("fsdp",))
    assert (run["world"], run["trained"]) == (4, run["parameters"])
    assert run["kind"].startswith("FSDP")
    assert run["allocated"][-1] - run["allocated"][0] < 4096
