"""The documentation keeps its word: every command it shows runs, every file it names is there, the site builds."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gmlake.trace import read_trace, write_trace
from gmlake.trace.formats.snapshot_write import CONVERTED, to_snapshot
from tests.docs.pages import PAGES, ROOT, commands
from tests.emulator.running import Emulated

HERE = Path(__file__).parent

# Commands that are not run here, and why.
ELSEWHERE = {
    "make ": "they set the repository up; .ci/run calls make test",
    "pip install": "as above",
    ".venv/": "benchmarks are run by hand",
    "gmlake workloads run paper": "it takes minutes; tests/workloads runs parts of it",
    "gmlake workloads run beyond": "as above",
}
OUTPUTS = re.compile(r"(?:-o|--record|--timeline|--json|--html) ([\w.-]+\.\w+)")
NEEDS_TORCH = re.compile(r"\b(python|torchrun|accelerate|deepspeed)\b")
NEEDS_GPU = re.compile(r"^(?!.*--emulate).*" + NEEDS_TORCH.pattern)


def shown() -> list[str]:
    """Every command once, wherever it is shown."""
    every = {command: None for page in PAGES if page.exists() for command in commands(page)}
    return [command for command in every if not command.startswith(tuple(ELSEWHERE))]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the documentation talks of."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copy(HERE / "train.py", folder)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "traces").mkdir()
    trace = read_trace("snapshot")
    write_trace(trace, folder / "run.gmt")
    converted = to_snapshot(trace)
    del converted[CONVERTED]  # as if PyTorch had written it
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(converted))
    write_trace(trace, folder / "gpu.snapshot.json.gz")
    np.savez(folder / "run.npz", kind=trace.kind, id=trace.id, size=trace.size, stream=trace.stream)
    return folder


@pytest.mark.parametrize("command", shown())
def test_a_command_that_is_shown_runs(command: str, prepared: Path, tmp_path: Path) -> None:
    if NEEDS_TORCH.search(command):
        Emulated()  # skips without PyTorch
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    for name in OUTPUTS.findall(command):
        (folder / name).unlink(missing_ok=True)
    run = ["sh", "-c", command]
    if NEEDS_GPU.search(command):  # the GPUs of this machine
        run = [
            sys.executable,
            "-m",
            "gmlake",
            "run",
            "--emulate",
            "h100-80g",
            "--gpus",
            "8",
            "--json",
            "o.json",
            "--",
            *run,
        ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GMLAKE")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(run, cwd=folder, env=clean | {"PATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in OUTPUTS.findall(command):
        assert (folder / name).exists(), f"{name} was not written"


def test_commands_are_found() -> None:
    """Guards the tests above against finding nothing."""
    assert len(shown()) > 25
    assert "gmlake doctor" in shown()


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:core|src|tests|bench|emulator|examples|tools|requirements)/[\w./-]*)`", page.read_text())
    missing = [name for name in named if not (ROOT / name).exists() and not list(ROOT.glob(f"{name}.*"))]
    assert missing == []


def test_names_in_the_life_of_an_allocation_exist() -> None:
    text = (ROOT / "docs" / "life-of-an-allocation.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "core").rglob("*.*"))
    names = re.findall(r"`(?:\w+::)?([a-z_]+)`", text)
    assert len(names) > 8
    assert [name for name in names if f"{name}(" not in code] == []


def test_the_site_builds(tmp_path: Path) -> None:
    """In strict mode: a link that leads nowhere, or a page that is not in the menu, is an error."""
    pytest.importorskip("mkdocs", reason="the site needs mkdocs: pip install 'gmlake[dev]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (ROOT / "docs").glob("*.md"):
        assert (tmp_path / "site" / f"{page.stem}.html").is_file()
