"""Results that are kept: a file of JSON lines, one for each finished replay, so that nothing is replayed twice.

A result belongs to a trace's content, an allocator with its options, the settings of the replay and the native code
that ran it: when any of them changes, the result is not found any more and made again. Lines are appended one by one,
so whatever ends a run, all that was finished before stays.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from gmlake import _core
from gmlake.cache import cache_folder
from gmlake.errors import UserError
from gmlake.replay import Result, Settings

FILE = "results.jsonl"


def usual_folder() -> Path:
    """Where results are kept unless the user says otherwise."""
    return cache_folder() / "workloads"


@cache
def _native_code() -> str:
    binding = Path(_core.__file__)
    return hashlib.sha256(binding.read_bytes() + binding.with_name("libgmlake.so").read_bytes()).hexdigest()


def key(trace: Path, allocator: str, settings: Settings) -> str:
    """What a result depends on, in short."""
    parts = [hashlib.sha256(trace.read_bytes()).hexdigest(), allocator, json.dumps(asdict(settings)), _native_code()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


class Kept:
    """The results of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read what is there; a line that is damaged, as by a run that was killed, is skipped."""
        self._path = folder / FILE
        self._results: dict[str, Result] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        except OSError as error:
            raise UserError(
                f"results cannot be kept in {folder}: {error.strerror}; choose another with --state"
            ) from None
        self._begin = "" if text.endswith("\n") or not text else "\n"  # after a line that was cut off
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self._results[entry["key"]] = Result.from_json(entry["result"])
            except (ValueError, TypeError, KeyError):
                continue

    def get(self, name: str) -> Result | None:
        """The result of that key."""
        return self._results.get(name)

    def add(self, name: str, result: Result) -> None:
        """Keep one more, at once."""
        self._results[name] = result
        try:
            with self._path.open("a") as file:
                file.write(f"{self._begin}{json.dumps({'key': name, 'result': result.to_json()})}\n")
                self._begin = ""
        except OSError as error:
            raise UserError(
                f"{self._path} cannot be written: {error.strerror}; what was finished is kept, make room and run again"
            ) from None
