"""What a run writes: kept in a file, and followed while it grows. Both of its streams, in the order of writing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import TracebackType
from typing import IO

from gmlake.errors import Error

_END_OF_LINE = re.compile(rb"[\r\n]+")  # progress bars draw a line again and again


class Output:
    """A file to write to, and the last line in it. With `shown` all of it appears on stderr too."""

    def __init__(self, path: Path, shown: bool) -> None:
        """Begin a new file."""
        self.last_line = ""
        self.file: IO[bytes] = path.open("wb")
        self._path = path
        self._reading: IO[bytes] = path.open("rb")
        self._shown = shown
        self._unfinished = b""

    def __enter__(self) -> Output:
        """Nothing was written yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show the rest."""
        self.follow()
        self.file.close()
        self._reading.close()

    def follow(self) -> None:
        """Take in what was written since the last time."""
        added = self._reading.read()
        if self._shown and added:
            sys.stderr.buffer.write(added)
            sys.stderr.buffer.flush()
        *lines, self._unfinished = _END_OF_LINE.split(self._unfinished + added)
        for line in (*lines, self._unfinished):
            text = line.decode(errors="replace").strip()
            if text:
                self.last_line = text

    def check_whole(self) -> None:
        """Whether there is room for more: else the command could not write all, and may have failed of that alone.

        As nothing is left of other files that could not be written whole, nothing is of this one.
        """
        try:
            with self._path.open("ab", buffering=0) as file:
                size = file.tell()
                file.write(b"\n")
                file.truncate(size)
        except OSError as error:
            self._path.unlink(missing_ok=True)
            raise Error(f"{self._path} cannot be written: {error.strerror or error}") from None

    def last_lines(self, count: int) -> list[str]:
        """The end of what was written."""
        lines = [line.decode(errors="replace") for line in _END_OF_LINE.split(self._path.read_bytes())]
        return [line for line in lines if line.strip()][-count:]
