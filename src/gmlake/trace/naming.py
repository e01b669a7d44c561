"""What a trace is called: by its file, without the folder and the suffix, as long as that tells several apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gmlake.output import readable

_SUFFIXES = (".gz", ".json", ".pickle", ".pkl", ".gmt", ".npz", ".csv", ".snapshot")


def stem(path: Path) -> str:
    """The name of the file without the suffixes of traces."""
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return readable(name or path.name)


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The stem of each, with as many of the folders above it as no other file shares; else with its suffix too."""
    whole = [path.absolute() for path in paths]
    return [_name(path, [other for other in whole if other != path]) for path in whole]


def _name(path: Path, others: Sequence[Path]) -> str:
    for end in (stem, _file_name):
        for folders in range(len(path.parents)):
            name = _joined(path, folders, end)
            if all(name != _joined(other, folders, end) for other in others):
                return name
    return stem(path)


def _joined(path: Path, folders: int, end: Callable[[Path], str]) -> str:
    above = path.parent.parts[1:]
    return readable("/".join([*above[len(above) - folders :], end(path)])) if folders <= len(above) else ""


def _file_name(path: Path) -> str:
    return readable(path.name)
