"""The word that is said while large files are read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from gmlake import waiting


@pytest.mark.parametrize(
    ("size", "terminal", "said"),
    [(waiting.LARGE + 1, True, True), (waiting.LARGE, True, False), (waiting.LARGE + 1, False, False)],
)
def test_only_large_files_on_a_terminal_are_worth_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, terminal: bool, said: bool
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(waiting, "Console", lambda stderr: Console(file=shown, force_terminal=terminal, width=80))
    file = tmp_path / "a [large] one.json"
    with file.open("wb") as opened:
        opened.truncate(size)
    with waiting.waiting("reading", "demo", file):
        pass
    assert ("reading a [large] one.json" in shown.getvalue()) == said
