"""Reads what a shared library needs and offers, from the tables that the dynamic linker itself would use.

Section headers are not looked at, so stripped files are fine, and of a file of hundreds of megabytes only the few
pages with these tables are touched. Not a general ELF reader: no relocations, no sections, no debug information.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gmlake.emulator.standins import elf
from gmlake.errors import UserError


@dataclass(frozen=True)
class Import:
    """A symbol that another library must define; file and version are empty when it is not versioned."""

    symbol: str
    file: str
    version: str


@dataclass(frozen=True)
class Imports:
    """What one library asks of others."""

    machine: int
    needed: tuple[str, ...]
    versions: frozenset[tuple[str, str]]  # of a file; also those that only weak symbols carry
    symbols: tuple[Import, ...]


def read_imports(path: Path) -> Imports:
    """The sonames that a library names and the symbols it wants; weak ones may stay undefined and are left out."""
    with _opened(path) as tables:
        versions = tables.needed_versions()
        imports = []
        for number, (name, info, _, section, _, _) in enumerate(tables.symbols(tables.first_defined())):
            if section == elf.UNDEFINED and name and info >> 4 == elf.GLOBAL:
                file, version = versions.get(tables.version_of(number), ("", ""))
                imports.append(Import(tables.text(name), file, version))
        return Imports(tables.machine, tables.needed(), frozenset(versions.values()), tuple(imports))


def read_exports(path: Path) -> frozenset[str]:
    """The names that a library defines for others."""
    with _opened(path) as tables:
        rows = tables.symbols(tables.symbol_count())
        visible = (elf.GLOBAL, elf.WEAK)
        return frozenset(
            tables.text(name)
            for name, info, _, section, _, _ in rows
            if section != elf.UNDEFINED and info >> 4 in visible
        )


def read_needed(path: Path) -> tuple[str, ...]:
    """The sonames or paths that a library names."""
    with _opened(path) as tables:
        return tables.needed()


class Tables:
    """A mapped library with the places of its dynamic tables; anything out of bounds raises struct.error or so."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        header = elf.HEADER.unpack_from(data)
        if header[0][:6] != elf.IDENTITY[:6]:
            raise ValueError("not a 64-bit little-endian ELF file")
        if header[1] != elf.SHARED_OBJECT:
            raise ValueError("not a shared library")
        self.machine: int = header[2]
        offset, size, count = header[5], header[9], header[10]
        segments = [elf.PROGRAM.unpack_from(data, offset + size * n) for n in range(count)]
        self._loads = [(row[3], row[2], row[5]) for row in segments if row[0] == elf.LOAD]
        self._tags: dict[int, int] = {}
        self._needed: list[int] = []
        for row in segments:
            if row[0] == elf.DYNAMIC_SEGMENT:
                self._read_dynamic(row[2], row[5])
        if elf.DT_STRTAB not in self._tags or elf.DT_SYMTAB not in self._tags:
            raise ValueError("no dynamic symbols")
        self._strings = self._place(elf.DT_STRTAB)
        self._symbols = self._place(elf.DT_SYMTAB)

    def _read_dynamic(self, offset: int, size: int) -> None:
        for at in range(offset, offset + size, elf.DYNAMIC.size):
            tag, value = elf.DYNAMIC.unpack_from(self._data, at)
            if tag == elf.DT_NULL:
                return
            if tag == elf.DT_NEEDED:
                self._needed.append(value)
            else:
                self._tags[tag] = value

    def _place(self, tag: int) -> int:
        """Where in the file the table that a tag names begins."""
        address = self._tags[tag]
        for start, offset, size in self._loads:
            if start <= address < start + size:
                return int(offset + address - start)
        raise ValueError("a table outside of every segment")

    def text(self, offset: int) -> str:
        """A string of the string table."""
        start = self._strings + offset
        end = self._data.find(b"\0", start)
        if end < 0:
            raise ValueError("a string without end")
        return self._data[start:end].decode()

    def needed(self) -> tuple[str, ...]:
        """The names of DT_NEEDED, in their order."""
        return tuple(self.text(offset) for offset in self._needed)

    def symbols(self, count: int) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The first symbols: name, type and binding, visibility, section, value, size."""
        end = self._symbols + count * elf.SYMBOL.size
        if end > len(self._data):
            raise ValueError("more symbols than bytes")
        return elf.SYMBOL.iter_unpack(self._data[self._symbols : end])

    def first_defined(self) -> int:
        """Before which symbol all undefined ones stand; the GNU hash table needs this order."""
        if elf.DT_GNU_HASH not in self._tags:
            return self.symbol_count()
        return int(elf.GNU_HASH.unpack_from(self._data, self._place(elf.DT_GNU_HASH))[1])

    def symbol_count(self) -> int:
        """How many symbols there are; the table itself does not say, but the hash tables do."""
        if elf.DT_HASH in self._tags:
            return int(struct.unpack_from("<II", self._data, self._place(elf.DT_HASH))[1])
        if elf.DT_GNU_HASH not in self._tags:
            raise ValueError("no hash table")
        table = self._place(elf.DT_GNU_HASH)
        buckets, first, words, _ = elf.GNU_HASH.unpack_from(self._data, table)
        starts = table + elf.GNU_HASH.size + 8 * words
        last = max(struct.unpack_from(f"<{buckets}I", self._data, starts), default=0)
        if last < first:
            return int(first)
        chain = starts + 4 * buckets
        while not struct.unpack_from("<I", self._data, chain + 4 * (last - first))[0] & 1:
            last += 1
        return int(last) + 1

    def version_of(self, symbol: int) -> int:
        """The index of a symbol's version; 0 and 1 stand for none."""
        if elf.DT_VERSYM not in self._tags:
            return 0
        (index,) = struct.unpack_from("<H", self._data, self._place(elf.DT_VERSYM) + 2 * symbol)
        return int(index) & ~elf.HIDDEN

    def needed_versions(self) -> dict[int, tuple[str, str]]:
        """From the index of a version to the file it is expected in and its name."""
        versions: dict[int, tuple[str, str]] = {}
        if elf.DT_VERNEED not in self._tags:
            return versions
        at = self._place(elf.DT_VERNEED)
        for _ in range(self._tags.get(elf.DT_VERNEEDNUM, 0)):
            _, count, file, first, following = elf.VERSION_NEED.unpack_from(self._data, at)
            tag_at = at + first
            for _ in range(count):
                _, _, index, name, step = elf.VERSION_NEED_TAG.unpack_from(self._data, tag_at)
                versions[index & ~elf.HIDDEN] = (self.text(file), self.text(name))
                tag_at += step
            if not following:
                break
            at += following
        return versions


@contextmanager
def _opened(path: Path) -> Iterator[Tables]:
    """Map a file; whatever is wrong with it becomes one sentence."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield Tables(data)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, struct.error, IndexError, OverflowError) as error:
        raise UserError(f"{path} is not a shared library that can be read: {error}") from None
