"""gmlake run around ordinary commands: streams, signals, exit statuses, bad input. The device has tests of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Cli, assert_refused, heed_interrupts

PYTHON = (sys.executable, "-c")


def test_streams_are_untouched(cli: Cli) -> None:
    done = cli("run", "--", *PYTHON, "import sys; print('out'); print('err', file=sys.stderr)")
    assert done.returncode == 0
    assert done.stdout == "out\n"
    assert done.stderr.startswith("err\n")
    assert "No process used CUDA" in done.stderr


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a CUDA device")
def test_without_a_gpu_the_emulated_one_is_named(cli: Cli) -> None:
    assert "--emulate DEVICE runs the command without one" in cli("run", "--", "true").stderr


def test_stacks_need_a_trace(cli: Cli) -> None:
    assert_refused(cli("run", "--stacks", "--", "true"), "--stacks says where the allocations of a trace come from")


def test_arguments_need_no_dashes(cli: Cli) -> None:
    done = cli("run", *PYTHON, "import sys; print(sys.argv[1:])", "--emulate", "-x", "--")
    assert done.stdout == "['--emulate', '-x', '--']\n"


def test_python_is_the_one_that_has_gmlake(cli: Cli) -> None:
    done = cli("run", "--", "python", "-c", "import gmlake, sys; print(sys.executable)", env={"PATH": "/usr/bin:/bin"})
    assert Path(done.stdout.strip()).parent == Path(sys.executable).parent


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_the_exit_status_is_passed_on(cli: Cli, status: int) -> None:
    assert cli("run", "--", "sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGTERM"])
def test_a_killed_command(cli: Cli, name: str) -> None:
    done = cli("run", "--", "sh", "-c", f"kill -{name.removeprefix('SIG')} $$")
    assert done.returncode == 128 + signal.Signals[name]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("gmlake: the command")
    assert name in last


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_signals_reach_the_command(name: str) -> None:
    program = f"""
import signal, sys, time
signal.signal(signal.{name}, lambda *_: sys.exit(42))
print("ready", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-m", "gmlake", "run", "--", *PYTHON, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.Signals[name])
    assert process.wait(timeout=30) == 42
    process.communicate()


def test_the_child_may_be_interrupted_like_any_other() -> None:
    """Blocking signals is for us alone: the child starts with none blocked."""
    program = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    done = subprocess.run([sys.executable, "-m", "gmlake", "run", "--", *PYTHON, program], capture_output=True)
    assert done.stdout == b"set()\n"


def test_a_signal_to_the_group_does_not_end_us_before_the_child() -> None:
    """Sent by a process to all of the group it reaches the child twice, so the child ends at the first without a while.

    An interpreter that is about to end has no handlers any more: there the second one would kill it.
    """
    program = """
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: os._exit(3))
print(1, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-m", "gmlake", "run", "--", *PYTHON, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 3
    process.communicate()


def test_signals_that_the_child_did_not_live_to_see_cost_no_report() -> None:
    """As from somebody who interrupts twice. We are stopped for a moment, so that all wait when the child has gone."""
    program = """
import os, signal, subprocess
ours = os.getppid()
os.kill(ours, signal.SIGSTOP)
for name in ("INT", "TERM", "USR1"):
    os.kill(ours, getattr(signal, f"SIG{name}"))
subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -CONT {ours}"])
os._exit(3)
"""
    command = [sys.executable, "-m", "gmlake", "run", "--json", "--", *PYTHON, program]
    done = subprocess.run(command, capture_output=True, preexec_fn=heed_interrupts)
    assert (done.returncode, done.stderr) == (3, b"")
    assert json.loads(done.stdout)["status"] == 3


def test_json_to_stdout_and_to_a_file(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "--json", "--", "true")
    report = json.loads(done.stdout)
    assert report == {
        "status": 0,
        "emulated": None,
        "processes": [],
        "unimplemented": [],
        "traces": [],
        "unwritten": [],
    }
    assert done.stderr == ""
    assert cli("run", "--json", "report.json", "--", "true").returncode == 0
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert_refused(cli("run", "--json", "report.json", "--", "true"), "exists already")
    assert cli("run", "--json", "report.json", "-f", "--", "true").returncode == 0


def test_a_script_without_python(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "try: python train.py" in cli("run", "train.py").stderr


def test_a_command_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    assert_not_started(cli("run", "--", "no-such-command"), 127, "no-such-command")
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    assert_not_started(cli("run", "--", "./train.py"), 126, "python ./train.py")
    assert_not_started(cli("run", "--", str(tmp_path)), 126, f"'{tmp_path}' cannot be started: it is a folder")


def assert_not_started(done: subprocess.CompletedProcess[str], status: int, complaint: str) -> None:
    assert done.returncode == status
    assert done.stderr.startswith("gmlake: ")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no command"),
        (["--"], "no command"),
        (["--", ""], "the command to run is empty"),
        (["--gpus", "2", "--", "true"], "--emulate"),
        (["--compute", "--", "true"], "--emulate"),
        (["--world-size", "2", "--", "true"], "--emulate"),
        (["--emulate", "a100", "--", "true"], "did you mean 'a100-80g'"),
        (["--emulate", "t4-16g", "--gpus", "0", "--", "true"], "from 1 to 64"),
        (["--emulate", "t4-16g", "--memory", "much", "--", "true"], "much"),
        (["--emulate", "t4-16g", "--memory", "0", "--", "true"], "above zero"),
        (["--emulate", "t4-16g", "--rank", "0", "--", "true"], "--world-size"),
        (["--emulate", "t4-16g", "--world-size", "4", "--rank", "4", "--", "true"], "from 0 to 3"),
        (["--emulate", "t4-16g", "--world-size", "0", "--", "true"], "1 or more"),
        (["--emulate", "t4-16g", "--kernel-us", "-1", "--", "true"], "from 0 to 60000000, which is a minute, not -1"),
        (["--emulate", "t4-16g", "--kernel-us", "nan", "--", "true"], "a minute, not nan"),
        (["--emulate", "t4-16g", "--kernel-us", "inf", "--", "true"], "a minute, not inf"),
        (["--emulate", "t4-16g", "--kernel-us", "60000001", "--", "true"], "a minute, not 60000001"),
        (["--emulate", "t4-16g", "--kernel-us", "1e16", "--", "true"], "a minute, not 1e+16"),
        (["--record", "out.pickle", "--", "true"], ".gmt"),
        (["--record", "no/such/folder/out.gmt", "--", "true"], "no folder"),
        (["--record", "/sys/out.gmt", "--", "true"], "/sys/out.gmt cannot be written: "),
        (["--json", "/sys/out.json", "--", "true"], "/sys/out.json cannot be written: "),
        (["--json", ".", "-f", "--", "true"], ". cannot be written: it is a folder"),
        (["--record", "out.gmt", "--json", "./out.gmt", "--", "true"], "choose another name for --json"),
        (["--record", "out.gmt", "--json", "out.rank0.gpu1.gmt", "--", "true"], "choose another name for --json"),
    ],
)
def test_bad_input(cli: Cli, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    assert_refused(cli("run", *arguments), complaint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        ((), {}),  # without a device that is emulated GMLake serves unless something else is said
        (("--allocator", "gmlake"), {"GMLAKE": "0"}),
        (("--emulate", "t4-16g", "--allocator", "gmlake"), {}),
        (("--emulate", "t4-16g"), {"GMLAKE": "1"}),
        (("--emulate", "t4-16g"), {"GMLAKE": "strict"}),
    ],
)
def test_an_option_that_gmlake_would_refuse(cli: Cli, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    """Nothing runs: the command would be served by PyTorch's own allocator, and only a warning would tell."""
    for wrong, complaint in (({"GMLAKE_TARGTE": "0.9"}, "did you mean GMLAKE_TARGET?"), ({"GMLAKE_TARGET": "7"}, "7")):
        assert_refused(cli("run", *arguments, "--", "echo", "started", env=variables | wrong), complaint)


@pytest.mark.parametrize(
    ("arguments", "variables"), [((), {"GMLAKE": "0"}), (("--allocator", "torch"), {"GMLAKE": "1"})]
)
def test_options_of_gmlake_do_not_matter_without_it(
    cli: Cli, arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    assert cli("run", *arguments, "--", "true", env=variables | {"GMLAKE_TARGTE": "0.9"}).returncode == 0


@pytest.mark.parametrize("name", ["out", "out.gpu0", "out.rank1", "out.pid4711", "out.rank12.gpu3", "out.pid1.gpu0"])
def test_no_trace_is_overwritten_unasked(cli: Cli, tmp_path: Path, name: str) -> None:
    """Which of these names a recording needs is known only when the run is over."""
    (tmp_path / f"{name}.gmt").write_text("old")
    assert_refused(cli("run", "--record", "out.gmt", "--", "true"), f"{name}.gmt exists already")
    assert cli("run", "--record", "out.gmt", "-f", "--", "true").returncode == 0
    assert cli("run", "--record", "ou.gmt", "--", "true").returncode == 0
    (tmp_path / f"{name}.gmt").unlink()
    (tmp_path / f"{name}.gmt").mkdir()
    assert_refused(cli("run", "--record", "out.gmt", "-f", "--", "true"), "it is a folder")


def test_names_beside_a_recording_may_be_taken(cli: Cli, tmp_path: Path) -> None:
    for name in ("out.gpu.gmt", "out.rank0.json", "out.old.gmt", "outer.gpu0.gmt"):
        (tmp_path / name).touch()
    assert cli("run", "--record", "out.gmt", "--", "true").returncode == 0


def test_a_full_disk(cli: Cli) -> None:
    """The report is shown instead, and the file named."""
    done = cli("run", "--json", "/dev/full", "-f", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert "No process used CUDA" in done.stderr
    assert done.stderr.endswith("gmlake: error: /dev/full cannot be written: No space left on device\n")


def test_nothing_is_left_behind(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    cli("run", "--", "true", env={"TMPDIR": str(folder)})
    assert list(folder.iterdir()) == []


def test_loading_costs_nothing_without_a_run() -> None:
    """The entry point is called by every `import torch`."""
    program = """
import sys
before = set(sys.modules)
from gmlake.autoload import activate
activate()
assert not {m for m in set(sys.modules) - before if m.startswith("gmlake.") and m != "gmlake.autoload"}
assert "numpy" not in sys.modules and "gmlake._core" not in sys.modules
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")}
    subprocess.run([*PYTHON, program], env=clean, check=True)
