"""The results of an evaluation inside a page of Markdown, between two comments; the rest of the page stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gmlake.errors import UserError
from gmlake.output import write_whole
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
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{page} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{page} cannot be read: it is no UTF-8 text") from None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise UserError(f"{page} has no place for results; put the lines '{BEGIN}' and '{END}' where they should be")
    return text


def write(page: Path, tables: Sequence[Table], sentences: Sequence[str]) -> None:
    """Replace what stands there; where that fails the page stays as it was."""
    text = check(page)
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    text = f"{before}{BEGIN}\n\n{section(tables, sentences)}\n{END}{after}"
    page = page.resolve()  # a link stays one
    new = page.with_name(page.name + ".new")
    write_whole(new, text.encode())
    new.replace(page)
