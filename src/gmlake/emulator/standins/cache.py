"""The stand-ins on disk: made once for each PyTorch, then found again.

A folder's name is a hash of everything its contents depend on. It is written under another name and renamed, so that
a folder is either complete or absent, whoever else is making the same one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import tempfile
from pathlib import Path

from gmlake import __version__, _core
from gmlake.cache import cache_folder
from gmlake.emulator.standins.libraries import DRIVER, file_name
from gmlake.emulator.standins.plan import DEVICE, plan, torch_libraries
from gmlake.emulator.standins.pytorch import check_cuda_build
from gmlake.emulator.standins.reading import read_exports, read_needed
from gmlake.emulator.standins.writing import Contents, library
from gmlake.errors import UserError

UMBRELLA = "stand-ins.so"
LINKABLE = "link"
# The linker splits LD_PRELOAD at spaces and colons and expands dollars.
UNUSABLE = re.compile(r"[\s:$]")


def stand_ins(torch_lib: Path | None, device_library: Path | None = None) -> Path:
    """The file to preload after the device's own library: all stand-ins for the PyTorch whose libraries are there.

    Without PyTorch only the driver and the management library.
    """
    device = device_library or Path(_core.__file__).with_name(DEVICE)
    files = []
    if torch_lib is not None:
        check_cuda_build(torch_lib)
        files = torch_libraries(torch_lib)
    root = cache_folder()
    if UNUSABLE.search(str(root)):
        raise UserError(f"{root} has a space, colon or dollar in its name; set XDG_CACHE_HOME to another folder")
    try:
        folder = root / _key(root, device, files)
        if not _is_complete(folder):
            _make(folder, device, files)
    except OSError as error:
        what = f"{error.filename or root}: {error.strerror}"
        raise UserError(f"the stand-ins cannot be kept ({what}); set XDG_CACHE_HOME to a writable folder") from None
    return folder / UMBRELLA


def _key(root: Path, device: Path, files: list[Path]) -> str:
    """Everything that the stand-ins depend on; the umbrella names its parts by their whole path."""
    if not device.is_file():
        raise UserError(f"{device} is missing; install gmlake again")
    here = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        here.update(source.read_bytes())
    inputs = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in (device, *files)]
    facts = json.dumps([__version__, here.hexdigest(), str(root), inputs])
    return hashlib.sha256(facts.encode()).hexdigest()[:20]


def _is_complete(folder: Path) -> bool:
    """Whether the umbrella and all it needs are there: a process that preloads half of them would not start."""
    umbrella = folder / UMBRELLA
    if not umbrella.is_file():
        return False
    try:
        parts = read_needed(umbrella)
    except UserError:
        return False
    return bool(parts) and all(Path(part).is_file() for part in parts)


def _make(folder: Path, device: Path, files: list[Path]) -> None:
    machine, parts = plan(files, read_exports(device))
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for part in parts:
            (temporary / file_name(part.soname)).write_bytes(library(machine, part))
        paths = [str(folder / file_name(part.soname)) for part in parts]
        umbrella = Contents("gmlake-stand-ins.so", paths)
        (temporary / UMBRELLA).write_bytes(library(machine, umbrella))
        # Compilers look for the driver by the name of its file.
        (temporary / LINKABLE).mkdir()
        (temporary / LINKABLE / DRIVER).symlink_to(Path("..") / file_name(DRIVER))
        temporary.chmod(0o755)
        _put_in_place(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, folder: Path) -> None:
    """Rename; when another process was faster its folder is as good, and a damaged one makes way."""
    with contextlib.suppress(FileExistsError, OSError):
        temporary.rename(folder)
        return
    if not _is_complete(folder):
        damaged = temporary / "damaged"
        with contextlib.suppress(FileNotFoundError):
            folder.rename(damaged)
        shutil.rmtree(damaged, ignore_errors=True)
        temporary.rename(folder)
