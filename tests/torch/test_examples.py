"""The examples, at a size that the CPU can compute: with GMLake they print the same losses and need no more memory.

Each is run as examples/README.md says, under PyTorch's own allocator and with GMLAKE=1 in the environment, which has to
reach every process that a launcher starts.
"""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.running import Done, Emulated, require

SMALL = ("--steps", 3, "--batch", 2, "--longest", 64, "--layers", 2, "--width", 64)
PORT = object()  # stands for one that is free
LOSS = re.compile(r"^step \d+:.* loss (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """How a script is run."""

    script: str
    launcher: tuple[object, ...] = ("python",)
    options: tuple[object, ...] = ()  # of gmlake run
    packages: tuple[str, ...] = ()
    processes: int = 1

    def run(self, emulated: Emulated, root: Path, ours: bool) -> Done:
        """On emulated devices, with values computed."""
        launcher = [free_port() if word is PORT else word for word in self.launcher]
        command = [*launcher, root / "examples" / self.script, *SMALL]
        env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | ({"GMLAKE": "1"} if ours else {})
        done = emulated.command(command, "--compute", *self.options, env=env)
        assert done.status == 0, done.stderr[-4000:]
        assert done.report["unimplemented"] == []
        assert [p["backend"] for p in done.report["processes"]] == ["gmlake" if ours else "native"] * self.processes
        assert not any(process.get("not_computed") for process in done.report["processes"])
        return done


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", 2)
ACCELERATE = ("accelerate", "launch", "--multi_gpu", "--num_processes", 2, "--main_process_port", PORT)
DEEPSPEED = ("deepspeed", "--num_gpus", 2, "--master_port")  # only tried: it takes long to start
TWO = ("--gpus", 2)
EXAMPLES = {
    "plain": Example("plain_loop.py"),
    "graphs": Example("cuda_graphs.py"),
    "streams": Example("two_streams.py", options=("--kernel-us", 20)),
    "trainer": Example("trainer_lora.py", packages=("transformers", "peft", "accelerate")),
    "lightning": Example("lightning_fit.py", packages=("lightning",)),
    "accelerate": Example("accelerate_loop.py", ACCELERATE, TWO, ("accelerate",), 2),
    "fsdp2": Example("fsdp2.py", TORCHRUN, TWO, processes=2),
    "fsdp2 as one of eight": Example("fsdp2.py", options=("--world-size", 8)),
    "zero3 as one of eight": Example("zero3_offload.py", options=("--world-size", 8), packages=("deepspeed",)),
}


def peaks(done: Done) -> dict[tuple[int, int], dict[str, Any]]:
    """By rank and device."""
    return {(p["rank"] or 0, row["device"]): row for p in done.report["processes"] for row in p["devices"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_losses_and_no_more_memory(emulated: Emulated, root: Path, name: str) -> None:
    example = EXAMPLES[name]
    for package in example.packages:
        require(package)
    with ThreadPoolExecutor(2) as both:
        ours, theirs = both.map(lambda ours: example.run(emulated, root, ours), (True, False))
    losses = LOSS.findall(ours.stdout)
    assert losses == LOSS.findall(theirs.stdout)
    assert len(losses) == 3 and all(5 < float(loss) < 15 for loss in losses)
    mine, other = peaks(ours), peaks(theirs)
    assert list(mine) == list(other) and len(mine) == example.processes
    for place, row in mine.items():
        assert row["peak_requested"] == other[place]["peak_requested"]
        assert row["peak_reserved"] <= other[place]["peak_reserved"]


def test_workers_of_deepspeed(emulated: Emulated, tmp_path: Path) -> None:
    """What the launcher starts is served as well."""
    require("deepspeed")
    script = tmp_path / "worker.py"
    script.write_text("import sys, torch; torch.empty(1, device=f'cuda:{sys.argv[1][-1]}')")
    done = emulated.command([*DEEPSPEED, free_port(), script], *TWO, env={"GMLAKE": "1"})
    assert done.status == 0, done.stderr[-4000:]
    found = [(p["rank"], p["backend"], [row["device"] for row in p["devices"]]) for p in done.report["processes"]]
    assert found == [(0, "gmlake", [0]), (1, "gmlake", [1])]


@pytest.mark.parametrize(
    ("script", "package", "arguments"),
    [
        ("accelerate_loop.py", "accelerate", ("--batch", 32)),
        ("lightning_fit.py", "lightning", ("--batch", 2, "--find-batch-size")),
    ],
)
def test_batch_size_finders_work_through_running_out_of_memory(
    emulated: Emulated, root: Path, script: str, package: str, arguments: tuple[object, ...]
) -> None:
    """From a batch that is too large downwards, or upwards to one; then the batch that was found is trained with."""
    require(package)
    size = ("--steps", 4, "--longest", 512, "--layers", 2, "--width", 256)
    example = root / "examples" / script
    done = emulated(example, "--allocator", "gmlake", "--memory", "3GiB", arguments=(*size, *arguments))
    assert done.status == 0, done.stderr[-4000:]
    assert done.device["out_of_memory"] >= 1
    assert done.stdout.count("step 4") == 1
    [*_, found] = re.findall(r"batch of (\d+)", done.stdout)
    assert 4 <= int(found) <= 16
