"""From what PyTorch's libraries import to the stand-ins that satisfy them: which libraries, with which functions."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from gmlake.emulator.standins.libraries import DRIVER, MANAGEMENT, Library, library_by_prefix, library_of
from gmlake.emulator.standins.machines import MACHINES, Machine
from gmlake.emulator.standins.reading import Imports, read_imports
from gmlake.emulator.standins.writing import Contents, Function
from gmlake.errors import UserError

DEVICE = "libgmlake_device.so"


def torch_libraries(folder: Path) -> list[Path]:
    """PyTorch's own libraries in its folder; some wheels put NVIDIA's beside them."""
    return sorted(path for path in folder.glob("*.so*") if path.is_file() and library_of(path.name) is None)


def plan(files: Iterable[Path], defined: Collection[str]) -> tuple[Machine, list[Contents]]:
    """The stand-ins for these files, without the functions that the device defines itself."""
    binaries = [read_imports(path) for path in files]
    machine = _machine(binaries)
    versions: dict[str, set[str]] = defaultdict(set)
    functions: dict[str, set[Function]] = defaultdict(set)
    sonames = [DRIVER, MANAGEMENT]
    for binary in binaries:
        sonames += [soname for soname in binary.needed if library_of(soname)]
        for file, version in binary.versions:
            versions[file].add(version)
    for binary in binaries:
        for wanted in binary.symbols:
            soname = wanted.file or _soname(wanted.symbol, binary.needed, sonames)
            library = library_of(soname)
            if library and wanted.symbol not in defined:
                functions[soname].add(Function(wanted.symbol, wanted.version, library.code(wanted.symbol)))
    return machine, [
        Contents(soname, [DEVICE], sorted(versions[soname]), sorted(functions[soname], key=_order))
        for soname in dict.fromkeys(sonames)
    ]


def _order(function: Function) -> tuple[str, str]:
    return function.symbol, function.version


def _soname(symbol: str, needed: Iterable[str], known: Iterable[str]) -> str:
    """Where an import without a version comes from: a library the file itself names, or else any that is known."""
    library = library_by_prefix(symbol)
    if library is None:
        return ""
    return next((soname for soname in (*needed, *known) if _is(soname, library)), "")


def _is(soname: str, library: Library) -> bool:
    found = library_of(soname)
    return found is not None and found.stem == library.stem


def _machine(binaries: Collection[Imports]) -> Machine:
    """The processor that all files are for; without any, this machine's."""
    names = {machine.name: machine.number for machine in MACHINES.values()}
    numbers = {binary.machine for binary in binaries} or {names.get(platform.machine(), 0)}
    if len(numbers) > 1:
        raise UserError("the libraries of PyTorch are for different processors; install it again")
    number = numbers.pop()
    if number not in MACHINES:
        processor = f"processor {number}" if binaries else platform.machine()
        raise UserError(f"the emulated device runs on {' and '.join(names)}, not on {processor}")
    return MACHINES[number]
