"""Compiling the bridge: once, in one process, and never again what has failed. The compiler here is a script."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gmlake.torch.bridge import building

GOOD = """#!/bin/sh
echo run >> "$(dirname "$0")/runs"
sleep 0.3
while [ "$1" != -o ]; do shift; done
echo library > "$2"
"""
BAD = """#!/bin/sh
echo run >> "$(dirname "$0")/runs"
echo "bridge.cpp:7: error: no such type" >&2
exit 1
"""


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """A PyTorch as far as the building looks at it."""
    folder = tmp_path / "torch"
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / building.CUDA).touch()
    return folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("GMLAKE_BRIDGE", raising=False)
    if not (building.HERE / "core").is_dir():
        pytest.skip("gmlake is not installed with the headers of its library")
    return tmp_path


def compiler(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    path = place / "compiler"
    path.write_text(script)
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    return path


def runs(place: Path) -> int:
    return len((place / "runs").read_text().splitlines())


def test_it_is_made_once_and_found_again(torch: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler(place, monkeypatch, GOOD)
    first = building.build(torch)
    assert first.library is not None
    assert first.library.read_text() == "library\n"
    assert building.build(torch) == first
    assert runs(place) == 1
    # Another PyTorch in the same place, or another compiler, has a bridge of its own.
    (torch / building.CUDA).write_text("newer")
    newer = building.build(torch)
    path.write_text(GOOD + "# newer\n")
    assert len({first, newer, building.build(torch)}) == 3
    assert runs(place) == 3


def test_what_failed_is_not_tried_again(
    torch: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    compiler(place, monkeypatch, BAD)
    first = building.build(torch)
    assert first.library is None
    assert "compiling the bridge to PyTorch with" in capfd.readouterr().err
    again = building.build(torch)
    assert "it does not compile: bridge.cpp:7: error: no such type; see " in again.reason
    assert runs(place) == 1
    assert capfd.readouterr().err == ""
    [failure] = (place / "cache" / "gmlake").glob("bridge-*/failure.txt")
    failure.unlink()
    building.build(torch)
    assert runs(place) == 2


def test_processes_that_start_together_compile_once(torch: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(place, monkeypatch, GOOD)
    program = (
        f"from pathlib import Path; from gmlake.torch.bridge import building as b; print(b.build(Path({str(torch)!r})))"
    )

    def start(_: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(start, range(4)))
    assert len(set(answers)) == 1
    assert "bridge.so" in answers[0]
    assert runs(place) == 1


def test_without_a_compiler_what_was_made_before_still_serves(
    torch: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(place, monkeypatch, GOOD)
    made = building.build(torch)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(place))
    assert building.build(torch) == made
    (torch / building.CUDA).write_text("another")
    assert building.build(torch).reason == "no C++ compiler was found (c++, g++, clang++, or $CXX)"


def test_what_stands_in_the_way(torch: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(place, monkeypatch, GOOD)
    (place / "cache").write_text("a file")
    assert "it cannot be kept (" in building.build(torch).reason
    (torch / building.CUDA).unlink()
    assert building.build(torch).reason == "this PyTorch has no CUDA"
    for value, reason in (
        ("0", "it is turned off by GMLAKE_BRIDGE=0"),
        ("off", "it is turned off by GMLAKE_BRIDGE=off"),
    ):
        monkeypatch.setenv("GMLAKE_BRIDGE", value)
        assert building.turned_off() == building.Built(None, reason)
    monkeypatch.setenv("GMLAKE_BRIDGE", "1")
    assert building.turned_off() is None


def test_a_compiler_that_does_not_end(torch: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(place, monkeypatch, "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(building, "PATIENCE", 0.2)
    building.build(torch)
    assert "the compiler did not end within 0.2 s" in building.build(torch).reason
