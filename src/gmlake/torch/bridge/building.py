"""Compiles the bridge, once for each PyTorch, gmlake and compiler, and finds it again in the cache.

Nothing of PyTorch is imported: `gmlake doctor` compiles it, too.

A folder of the cache holds either the library or the reason why there is none: a compile that failed is not tried
again. Processes that start together, as the workers of torchrun do, compile once: the others wait for the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gmlake import __version__, _core
from gmlake.cache import cache_folder

HERE = Path(__file__).parent
COMPILERS = ("c++", "g++", "clang++")
CUDA = Path("lib", "libtorch_cuda.so")
LIBRARY, FAILURE = "bridge.so", "failure.txt"
PATIENCE = 180  # seconds for one compile; it takes about five
OFF = ("0", "false", "no", "off")


@dataclass(frozen=True)
class Built:
    """The bridge, or why there is none."""

    library: Path | None
    reason: str = ""


def turned_off() -> Built | None:
    """The answer where the user does not want the bridge."""
    wanted = os.environ.get("GMLAKE_BRIDGE", "1").strip().lower()
    return Built(None, f"it is turned off by GMLAKE_BRIDGE={wanted}") if wanted in OFF else None


def build(torch: Path) -> Built:
    """The bridge for the PyTorch in this folder: from the cache, or compiled now, which is said. Never raises."""
    if not (torch / CUDA).is_file():
        return Built(None, "this PyTorch has no CUDA")
    if not (HERE / "core").is_dir() or not (torch / "include").is_dir():
        return Built(None, "the headers that it is compiled with are not installed")
    try:
        compiler = _compiler()
        key = _key(torch)
        if compiler is None:
            others = sorted(cache_folder().glob(f"bridge-{key}-*/{LIBRARY}"))
            names = ", ".join(COMPILERS)
            return Built(others[0]) if others else Built(None, f"no C++ compiler was found ({names}, or $CXX)")
        folder = cache_folder() / f"bridge-{key}-{_hash([*compiler, _stamp(Path(compiler[0]).resolve())])}"
        if found := _look(folder):
            return found
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            return _look(folder) or _compile(compiler, torch, folder)
    except TimeoutError:
        return Built(None, "another process has been compiling it for too long")
    except OSError as error:
        return Built(None, f"it cannot be kept ({error.filename or cache_folder()}: {error.strerror})")


def _look(folder: Path) -> Built | None:
    if (folder / LIBRARY).is_file():
        return Built(folder / LIBRARY)
    try:
        return Built(None, f"{(folder / FAILURE).read_text().splitlines()[0]}; see {folder / FAILURE}")
    except (FileNotFoundError, IndexError):
        return None


def _compiler() -> list[str] | None:
    """The user's choice, or the first compiler there is."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for words in (chosen, *([name] for name in COMPILERS)):
        if words and (path := shutil.which(words[0])):
            return [path, *words[1:]]
    return None


def _key(torch: Path) -> str:
    """What the library depends on besides the compiler."""
    sources = [path for path in sorted(HERE.rglob("*")) if path.suffix in (".h", ".cpp")]
    contents = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    libraries = torch / CUDA, Path(_core.__file__).with_name("libgmlake.so")
    return _hash([__version__, contents, *(_stamp(library) for library in libraries)])


def _hash(facts: list[str]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def _stamp(path: Path) -> str:
    about = path.stat()
    return f"{path} {about.st_size} {about.st_mtime_ns}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; TimeoutError if somebody else does not let go of it."""
    deadline = time.monotonic() + PATIENCE
    with (folder / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError from None
                time.sleep(0.1)
        yield


def _compile(compiler: list[str], torch: Path, folder: Path) -> Built:
    what = f"compiling the bridge to PyTorch with {compiler[0]}, once (GMLAKE_BRIDGE=0 does without)"
    print(f"gmlake: {what}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder) as temporary:
        made = Path(temporary) / LIBRARY
        command = [*compiler, *_arguments(torch), "-o", str(made)]
        clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        try:
            done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=PATIENCE, check=False)
            output, failed = done.stdout + done.stderr, done.returncode != 0
        except subprocess.TimeoutExpired:
            output, failed = f"error: the compiler did not end within {PATIENCE} s", True
        if not failed:
            made.rename(folder / LIBRARY)
            return Built(folder / LIBRARY)
    first = next((line for line in output.splitlines() if "error" in line.lower()), "the compiler does not say why")
    text = f"it does not compile: {first}\n\n{shlex.join(command)}\n\n{output}\nRemove this file to try again.\n"
    (folder / FAILURE).write_text(text)
    return Built(None, f"it does not compile; see {folder / FAILURE}")


def _arguments(torch: Path) -> list[str]:
    """Libraries are named without their place: PyTorch and we have loaded them before the bridge is."""
    return [
        *("-std=c++20", "-O2", "-shared", "-fPIC", "-w"),
        *(f"-I{folder}" for folder in (HERE / "cuda", HERE / "core", torch / "include")),
        str(HERE / "bridge.cpp"),
        *(f"-L{folder}" for folder in (torch / "lib", Path(_core.__file__).parent)),
        *("-Wl,--no-as-needed", "-lgmlake", "-lc10", "-lc10_cuda", "-ltorch_cuda"),
    ]
