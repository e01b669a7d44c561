"""gmlake compare: bad input and bad ends with ordinary commands, then the comparison itself on the emulated device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gmlake.comparison.smallest import smallest_memory
from gmlake.emulator.launch import Plan
from gmlake.emulator.summary import lacks_gpu
from gmlake.trace import read_trace
from tests.emulator.running import Emulated

from .conftest import Cli, assert_refused, heed_interrupts

MIB = 1 << 20
# Half of every segment of PyTorch's stays in use: 320 MiB are free, but neither in one piece nor to be given back.
SCATTERED = """
import torch
held = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(80)]
del held[::2]
large = torch.empty(320 << 20, dtype=torch.uint8, device="cuda")
print("done")
"""
EXPANDABLE = "expandable_segments:True"


@pytest.fixture(scope="module")
def on_device() -> list[str]:
    """What comes before the command, where there is a PyTorch."""
    Emulated()
    return ["compare", "--emulate", "a100-80g"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "gmlake compare -- python train.py"),
        (["--", ""], "the command to run is empty"),
        (["--gpus", "2", "--", "true"], "--emulate"),
        (["--smallest-memory", "--", "true"], "--emulate"),
        (["--emulate", "t4-16g", "--memory", "0", "--", "true"], "above zero"),
        (["--allocator", "caching", "--", "true"], "caching"),
        (["--keep", "no/such", "--", "true"], "no folder"),
        (["--keep", "loop.npz", "--", "true"], "is a file"),
        (["--json", "loop.npz", "--", "true"], "exists already"),
        (["--html", "page.txt", "--", "true"], ".html"),
        (["--html", "/sys/page.html", "--", "true"], "/sys/page.html cannot be written: "),
        (["--json", "/sys/out.json", "--", "true"], "/sys/out.json cannot be written: "),
        (["--keep", "/sys/runs", "--", "true"], "/sys/runs cannot be made: "),
        (["--html", "page.html", "--json", "./page.html", "--", "true"], "cannot both be page.html"),
    ],
)
def test_bad_input(cli: Cli, npz: Path, arguments: list[str], complaint: str) -> None:
    assert_refused(cli("compare", *arguments), complaint)


def test_a_mistake_costs_nothing_that_was_kept(cli: Cli, tmp_path: Path) -> None:
    """Neither what is in the folder, nor a new folder that stays empty."""
    kept = tmp_path / "runs"
    kept.mkdir()
    for name in ("expandable.gmt", "torch.log"):
        (kept / name).write_text("old")
    assert_refused(cli("compare", "--emulate", "a100", "--keep", "runs", "-f", "--", "true"), "did you mean")
    assert_refused(cli("compare", "--emulate", "a100", "--keep", "new", "--", "true"), "did you mean")
    for name, status in (("no-such-command", 127), (str(kept / "torch.log"), 126), (str(kept), 126)):
        assert cli("compare", "--keep", "runs", "-f", "--", name).returncode == status
    (kept / "torch.gmt").mkdir()
    assert_refused(cli("compare", "--keep", "runs", "-f", "--", "true"), "it is a folder")
    assert sorted(path.name for path in kept.iterdir()) == ["expandable.gmt", "torch.gmt", "torch.log"]
    assert not (tmp_path / "new").exists()


def test_an_option_that_gmlake_would_refuse_is_found_before_the_first_run(cli: Cli, tmp_path: Path) -> None:
    wrong = {"GMLAKE_TARGTE": "0.9"}
    assert_refused(cli("compare", "--keep", "runs", "--", "touch", "made", env=wrong), "did you mean GMLAKE_TARGET?")
    assert list(tmp_path.iterdir()) == []
    cli("compare", "--allocator", "torch", "--", "touch", "made", env=wrong)
    assert (tmp_path / "made").exists()


def test_a_command_that_uses_no_gpu(cli: Cli) -> None:
    done = cli("compare", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    *runs, last = done.stderr.splitlines()
    assert runs == [f"gmlake compare: {n} of 3, {a}" for n, a in enumerate(("torch", "expandable", "gmlake"), 1)]
    assert "no process of the command used CUDA" in last and "add --emulate" in last


def test_a_command_that_always_fails(cli: Cli) -> None:
    done = cli("compare", "--allocator", "torch", "--allocator", "gmlake", "--", "sh", "-c", "seq 99; exit 3")
    assert (done.returncode, done.stdout) == (1, "")
    *lines, error = done.stderr.splitlines()[2:]
    assert lines == ["The last lines with torch:", *(f"  {number}" for number in range(85, 100))]
    assert error.startswith("gmlake: error: the command fails, whatever the allocator: it ended with status 3")
    if lacks_gpu(Plan(Path())):
        assert error.endswith("--emulate DEVICE runs the command without one")


def test_an_output_that_cannot_be_kept(cli: Cli, tmp_path: Path) -> None:
    """Such a command fails of it, and is not to blame: on a full disk, or where files may not be longer."""
    limit = "from resource import *; setrlimit(RLIMIT_FSIZE, (1 << 16, getrlimit(RLIMIT_FSIZE)[1]))"
    program = f"{limit}; print(80_000 * 'x')"
    arguments = ["--allocator", "torch", "--keep", "runs", "--", "python", "-c", program]
    done = cli("compare", *arguments)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("gmlake: error: the command fails")  # for us there is no limit
    (tmp_path / "runs" / "torch.log").unlink()
    ours = f"{limit}; from gmlake.__main__ import main; raise SystemExit(main())"
    command = [sys.executable, "-c", ours, "compare", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["gmlake: error: runs/torch.log cannot be written: File too large"]
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_command_that_is_not_there(cli: Cli) -> None:
    done = cli("compare", "--", "no-such-command")
    assert done.returncode == 127
    assert done.stderr.splitlines()[-1] == "gmlake: there is no command 'no-such-command' in PATH nor at that place"


def test_the_command_reads_nothing_and_is_shown_when_asked(cli: Cli) -> None:
    done = cli("compare", "--verbose", "--allocator", "torch", "--", "sh", "-c", "cat; echo out; echo err >&2; exit 1")
    assert done.stderr.splitlines()[:3] == ["gmlake compare: 1 of 1, torch", "out", "err"]
    assert "The last lines" not in done.stderr


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_it_and_the_command(tmp_path: Path, name: str, status: int) -> None:
    """No run follows the one that was under way, and nothing is left behind."""
    program = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); print('ready', flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-m", "gmlake", "compare", "-v", "--", "python", "-c", f"{program}; time.sleep(60)"],
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"gmlake compare: 1 of 3, torch\n"
    assert process.stderr.readline() == b"ready\n"
    process.send_signal(signal.Signals[name])
    assert process.wait(timeout=30) == status
    assert process.stderr.read().splitlines() == ([b"gmlake: interrupted"] if name == "SIGINT" else [])
    assert list(tmp_path.iterdir()) == []
    process.stderr.close()


def test_the_comparison(cli: Cli, on_device: list[str], tmp_path: Path) -> None:
    done = cli(*on_device, "--keep", "runs", "--html", "page.html", "--", "python", "-c", SCATTERED)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].startswith("Report: page.html.")
    assert "<title>python -c" in (tmp_path / "page.html").read_text()
    lines = [line.split() for line in done.stdout.splitlines()]
    rows = {line[0]: " ".join(line[1:]) for line in lines[2:5]}
    assert rows["torch"] == "640.00 MiB 640.00 MiB 1.09 GiB 57.1 0 0"
    assert rows["expandable"] == "640.00 MiB 640.00 MiB 960.00 MiB 66.7 0 0"
    assert rows["gmlake"] == "640.00 MiB 640.00 MiB 640.00 MiB 100.0 0 0"
    assert "\ngmlake reserves 640.00 MiB where PyTorch reserves 1.09 GiB: 480.00 MiB less.\n" in done.stdout
    assert "seconds" not in done.stdout
    assert done.stdout.splitlines()[-1] == "Next: gmlake replay runs/torch.gmt"
    for allocator in rows:
        assert (tmp_path / "runs" / f"{allocator}.log").read_text().endswith("done\n")
        assert len(read_trace(str(tmp_path / "runs" / f"{allocator}.gmt"), find_marks=False)) >= 121
    assert_refused(cli(*on_device, "--keep", "runs", "--", "true"), "exists already")


def test_runs_that_did_not_do_the_same(cli: Cli, on_device: list[str], tmp_path: Path) -> None:
    """Nothing is said to be saved; and the first run leaves nothing to the others that PyTorch's compilers keep."""
    program = """
import os, pathlib, torch
for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
    folder = pathlib.Path(os.environ[name])
    folder.mkdir(parents=True)
made = pathlib.Path("made")
torch.empty((20 if made.exists() else 40) << 20, dtype=torch.uint8, device="cuda")
made.touch()
"""
    options = ["--allocator", "torch", "--allocator", "gmlake"]
    done = cli(*on_device, *options, "--", "python", "-c", program)
    assert done.returncode == 0, done.stderr
    assert "The runs did not ask for the same memory (from 20.00 MiB to 40.00 MiB at most)" in done.stdout
    assert "gmlake reserves" not in done.stdout


def test_out_of_memory_is_a_result(cli: Cli, on_device: list[str]) -> None:
    options = ["--memory", "1GiB", "--allocator", "torch", "--allocator", "gmlake"]
    done = cli(*on_device, *options, "--json", "--", "python", "-c", SCATTERED)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["emulated"] == {"device": "a100-80g", "memory": 1024 * MIB, "gpus": 1}
    torch, ours = told["runs"]
    assert (torch["allocator"], torch["outcome"], torch["status"]) == ("torch", "out of memory", 1)
    assert "OutOfMemoryError" in torch["last_lines"][-1]
    assert (ours["allocator"], ours["outcome"], ours["last_lines"]) == ("gmlake", "completed", [])
    assert [process["backend"] for run in told["runs"] for process in run["processes"]] == ["native", "gmlake"]
    assert ours["seconds"] is None
    assert told["saving"] == "gmlake completes with 640.00 MiB where PyTorch runs out of memory."


def test_only_files_that_were_kept_are_named(cli: Cli, on_device: list[str], tmp_path: Path) -> None:
    """A page needs traces, which are gone with the comparison unless there is a folder for them."""
    arguments = ["--allocator", "torch", "--html", "page.html", "--json", "out.json", "-f", "--"]
    for keep in ([], ["--keep", "runs"]):
        done = cli(*on_device, *keep, *arguments, "python", "-c", SCATTERED)
        assert done.returncode == 0, done.stderr
        [run] = json.loads((tmp_path / "out.json").read_text())["runs"]
        assert [trace["path"] for trace in run["traces"]] == (["runs/torch.gmt"] if keep else [])


def test_files_that_cannot_be_written_in_the_end(cli: Cli, on_device: list[str], tmp_path: Path) -> None:
    """The table is shown all the same."""
    arguments = [*on_device, "--allocator", "torch", "--keep", "runs", "--json", "/dev/full", "-f", "--"]
    done = cli(*arguments, "python", "-c", f"{SCATTERED}import os; os.mkdir('runs/torch.gmt')")
    assert done.returncode == 1
    assert done.stdout.splitlines()[2].split()[0] == "torch"
    assert "/dev/full cannot be written: No space left on device; runs/torch.gmt cannot be written: " in done.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["torch.gmt", "torch.log"]


def test_a_failure_of_one_run(cli: Cli, on_device: list[str]) -> None:
    program = "import torch; torch.empty(9, device='cuda'); assert torch.cuda.get_allocator_backend() != 'gmlake', 'no'"
    done = cli(*on_device, "--allocator", "torch", "--allocator", "gmlake", "--", "python", "-c", program)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "  AssertionError: no"
    assert [line.split()[-1] for line in done.stdout.splitlines()[2:4]] == ["completed", "failed"]


@pytest.mark.parametrize(
    ("allocator", "line", "complaint"),
    [
        ("torch", f"os.environ['PYTORCH_CUDA_ALLOC_CONF'] = '{EXPANDABLE}'", "with expandable segments"),
        ("torch", f"os.environ.setdefault('PYTORCH_ALLOC_CONF', '{EXPANDABLE}')", "--allocator expandable --allocator"),
        ("torch", f"import torch; torch._C._accelerator_setAllocatorSettings('{EXPANDABLE}')", "sets expandable_segme"),
        ("expandable", "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:64'", "without expandable segments"),
        ("expandable", "import gmlake; gmlake.enable()", "was served by GMLake"),
        ("gmlake", "os.environ['GMLAKE'] = '0'", "the line that sets GMLAKE"),
    ],
)
def test_a_script_that_chooses_another_allocator(
    cli: Cli, on_device: list[str], allocator: str, line: str, complaint: str
) -> None:
    """Its figures would stand where those of the allocator that was asked for belong."""
    program = f"import os\n{line}\nimport torch; torch.empty(9, device='cuda')"
    done = cli(*on_device, "--allocator", allocator, "--", "python", "-c", program)
    assert (done.returncode, done.stdout) == (2, "")
    [_, error] = done.stderr.splitlines()
    assert error.startswith(f"gmlake: error: the run with --allocator {allocator} was served by ")
    assert complaint in error
    done = cli(*on_device, "--allocator", allocator, "--", "python", "-c", f"{program}; raise ValueError('its own')")
    assert "ValueError: its own" in done.stderr and "was served by" not in done.stderr


def test_a_script_may_choose_what_is_asked_for(cli: Cli, on_device: list[str]) -> None:
    program = f"import os; os.environ['PYTORCH_CUDA_ALLOC_CONF'] = '{EXPANDABLE}'\n{SCATTERED}"
    done = cli(*on_device, "--allocator", "expandable", "--allocator", "gmlake", "--", "python", "-c", program)
    assert done.returncode == 0, done.stderr
    assert "gmlake reserves 640.00 MiB where PyTorch with expandable segments reserves 960.00" in done.stdout


def test_the_smallest_memory(cli: Cli, on_device: list[str]) -> None:
    done = cli(*on_device, "--allocator", "gmlake", "--smallest-memory", "--json", "--", "python", "-c", SCATTERED)
    [run] = json.loads(done.stdout)["runs"]
    assert 640 * MIB <= run["smallest_memory"] <= 648 * MIB
    assert "gmlake compare: gmlake on 6" in done.stderr


@pytest.mark.parametrize("need", [100, 101, 117, 163, 199, 200, 230, 350])
def test_the_search(need: int) -> None:
    """Between 100 MiB active and 200 reserved; beyond that where what should do does not."""
    tried: list[int] = []

    def completes(memory: int) -> bool:
        tried.append(memory)
        return memory >= need * MIB

    found = smallest_memory(completes, 100 * MIB, 200 * MIB, 400 * MIB)
    assert need * MIB <= found <= (need + 2) * MIB
    assert found in tried and len(tried) <= (7 if need <= 200 else 80)
