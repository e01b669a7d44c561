"""Files that the user asked for: what cannot be written is refused before any work is done, what can be is written
whole or not at all, with names in it that any reader can decode and any terminal can show."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from gmlake.errors import UserError

# How Python keeps the bytes of a file's name that are not UTF-8; what steers a terminal; what no SVG may hold.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f]")
_UNREADABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")


def readable(text: str) -> str:
    """The text with a replacement character for whatever cannot be encoded or shown."""
    return _UNREADABLE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The text as a terminal shows it in one piece, whatever a file's name in it holds."""
    return _STEERING.sub("\ufffd", " ".join(text.splitlines()))


def check_target(path: Path, force: bool, to_force: str = "overwrite it with -f") -> None:
    """Refuse a file that could not be written, before any work is done; `to_force` says how to overwrite one."""
    try:
        target = _target(path)
        there = target.exists()
        if target.is_dir():
            raise UserError(f"{path} cannot be written: it is a folder")
        if there and not force:
            raise UserError(f"{path} exists already: choose another name, or {to_force}")
        if not target.parent.is_dir():
            parent = (target if path.is_symlink() else path).parent
            raise UserError(f"{path} cannot be written: there is no folder {parent}")
        if there and not target.is_file():
            return  # opening a pipe would wait for its reader, and closing it send that one away
        with target.open("ab" if there else "xb"):  # permissions alone do not say it: a file system may refuse anyone
            pass
        if not there:
            target.unlink()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def write_whole(path: Path, data: bytes, *, force: bool = True) -> None:
    """Write a file; if that fails nothing is left of it, because half a file misleads and is in the next try's way."""
    try:
        with _target(path).open("wb" if force else "xb") as file:
            try:
                file.write(data)
                file.flush()
                if path.is_file():
                    file.truncate()  # another run may have written a longer one meanwhile
            except BaseException:
                _discard(path)
                raise
    except FileExistsError:
        raise UserError(f"{path} exists already: choose another name, or overwrite it with -f") from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error


def move_whole(source: Path, path: Path) -> None:
    """Put a finished file where the user wants it, through links as write_whole does; a failure changes nothing."""
    target = _target(path)  # a link would be replaced itself
    if target.exists() and not target.is_file():
        write_whole(path, source.read_bytes())  # so would a device or a pipe
        return
    partial = target.with_name(f"{target.name}.partial")
    try:
        shutil.move(source, partial)  # a copy, which may fail midway, if the disk is another
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error


def _target(path: Path) -> Path:
    """The file itself, or where it will be: a link may lead to what is not there yet."""
    return Path(os.path.realpath(path))


def _discard(path: Path) -> None:
    """Remove what was written in part; devices and pipes stay, and so does a link to the file."""
    with suppress(OSError):
        if path.is_file():
            _target(path).unlink()
