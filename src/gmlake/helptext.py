"""How --help is laid out: the words of a docstring, with prose as wide as the terminal and examples as they stand."""

from __future__ import annotations

import argparse
import textwrap


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs anew; lines that are indented keep their place."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled: list[str] = []
        paragraph: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line and not line.startswith(" "):
                paragraph.append(line)
                continue
            if paragraph:
                filled.append(textwrap.fill(" ".join(paragraph), width, break_on_hyphens=False, break_long_words=False))
                paragraph = []
            filled.append(line)
        return "\n".join(indent + line for line in "\n".join(filled[:-1]).splitlines())
