"""Files that are to be written: what cannot be is refused before any work is done, and later told with its name."""

from __future__ import annotations

from pathlib import Path

from gmlake.errors import Error, UserError


def check_target(path: Path, force: bool, to_force: str = "overwrite it with -f") -> None:
    """Refuse a file that could not be written, before any work is done; `to_force` says how to overwrite one."""
    try:
        there = path.exists()
        if path.is_dir():
            raise UserError(f"{path} cannot be written: it is a folder")
        if there and not force:
            raise UserError(f"{path} exists already: choose another name, or {to_force}")
        if not path.parent.is_dir():
            raise UserError(f"{path} cannot be written: there is no folder {path.parent}")
        if there and not path.is_file():
            return  # opening a pipe would wait for its reader, and closing it send that one away
        with path.open("ab" if there else "xb"):  # permissions alone do not say it: a file system may refuse anyone
            pass
        if not there:
            path.unlink()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def write_text(path: Path, text: str) -> None:
    """Write a whole file; what fails then, such as a disk that became full, is told with the file's name."""
    try:
        path.write_text(text)
    except OSError as error:
        raise Error(f"{path} cannot be written: {error.strerror or error}") from None
