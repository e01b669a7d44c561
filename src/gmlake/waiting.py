"""A word on stderr while large files are read or written: it takes seconds, and nothing tells how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

LARGE = 4 << 20  # bytes; what is smaller takes no time worth a word


@contextmanager
def waiting(doing: str, *files: str | Path) -> Iterator[None]:
    """Show what is being done, on a terminal, if any of the files is large."""
    console = Console(stderr=True)
    large = [file for file in map(Path, files) if _is_large(file)]
    if not large or not console.is_terminal:
        yield
        return
    with console.status(f"{doing} {escape(', '.join(file.name for file in large))}"):
        yield


def _is_large(file: Path) -> bool:
    with suppress(OSError):  # whoever reads it says what is wrong with it
        return file.is_file() and file.stat().st_size > LARGE
    return False
