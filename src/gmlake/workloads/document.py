"""The results of an evaluation inside a page of Markdown, between two comments; the rest of the page stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gmlake.errors import UserError
from gmlake.workloads.tables import Table

BEGIN = "<!-- results of gmlake workloads run -->"
END = "<!-- end of results -->"


def section(tables: Sequence[Table], sentences: Sequence[str]) -> str:
    """What stands between the comments."""
    summary = "\n".join(f"- {sentence}" for sentence in sentences)
    return "\n".join([f"{summary}\n", *(table.markdown() for table in tables)])


def check(page: Path) -> str:
    """The page, which must have both comments."""
    try:
        text = page.read_text()
    except OSError as error:
        raise UserError(f"{page} cannot be read: {error.strerror}") from None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise UserError(f"{page} has no place for results; put the lines '{BEGIN}' and '{END}' where they should be")
    return text


def write(page: Path, tables: Sequence[Table], sentences: Sequence[str]) -> None:
    """Replace what stands there."""
    text = check(page)
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{section(tables, sentences)}\n{END}{after}")
