"""What to do next, as a command that can be pasted into a shell, whatever the names in it are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text


def show_next(console: Console, words: Sequence[str]) -> None:
    """Print the command in one line; a Text, because brackets and colons of a name would be taken for markup."""
    console.print(Text(f"Next: {shlex.join(words)}"), style="dim", soft_wrap=True)
