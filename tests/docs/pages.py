"""Finds the commands that the README and docs/ show: lines of code blocks that start with the name of a program.

A block in which a line begins with "$ " is a transcript: those lines are commands, the others what they print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gmlake.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_VERBS = "|".join(command.NAME for command in COMMANDS)
_COMMAND = re.compile(
    rf"(?:[A-Z_]+=\S+ )*(?:gmlake (?:{_VERBS})(?! {{2}})\b|python |torchrun |accelerate |deepspeed |pip |make |\.venv/)"
)
_REMARK = re.compile(r"\s+# .*$")


def commands(page: Path) -> list[str]:
    """The commands of a page, without remarks, in their order."""
    found: list[str] = []
    for block in _blocks(page.read_text()):
        transcript = any(line.startswith("$ ") for line in block)
        lines = [line[2:] for line in block if line.startswith("$ ")] if transcript else block
        lines = [_REMARK.sub("", line) for line in lines]
        found += [line for line in lines if transcript or _COMMAND.match(line)]
    return found


def _blocks(text: str) -> Iterator[list[str]]:
    """Code blocks, fenced or indented by four spaces, with continued lines joined."""
    block: list[str] = []
    fenced = False
    for line in text.replace("\\\n", "").splitlines():
        fence = line.startswith("```")
        if not fence and (fenced or line.startswith("    ")):
            block.append(line if fenced else line[4:])
            continue
        fenced = fenced != fence
        if block:
            yield block
            block = []
    if block:
        yield block
