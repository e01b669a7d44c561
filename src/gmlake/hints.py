"""What to do next, as a command that can be pasted into a shell, whatever the names in it are; what was chosen."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gmlake.trace import Trace


def show_next(console: Console, words: Sequence[str]) -> None:
    """Print the command in one line; a Text, because brackets and colons of a name would be taken for markup."""
    console.print(Text(f"Next: {shlex.join(words)}"), style="dim", soft_wrap=True)


def again(*options: str) -> list[str]:
    """The command that was given, with more options: whatever else was asked is asked again."""
    return ["gmlake", sys.argv[1], *options, *sys.argv[2:]]


def operand(file: str | Path) -> str:
    """A file as a word of a command, never to be taken for an option."""
    return f"./{file}" if str(file).startswith("-") else str(file)


def unused(name: str) -> str:
    """The name, or one like it that no file here has: a command that would overwrite one is refused."""
    path = Path(name)
    others = (f"{path.stem}-{number}{path.suffix}" for number in count(2))
    return next(one for one in chain([name], others) if not Path(one).exists())


def mention_devices(traces: Iterable[Trace]) -> None:
    """Say on stderr which device of a snapshot was taken where nobody chose one of several."""
    for trace in traces:
        if trace.other_devices:
            others = ", ".join(map(str, trace.other_devices))
            taken = f"{trace.name}: device {trace.device} is taken, the one with most events"
            print(f"gmlake: {taken}; --device takes another ({others})", file=sys.stderr)
