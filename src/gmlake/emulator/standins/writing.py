"""Writes a stand-in library: an ELF shared object that defines functions which only report that they were called.

Such a file has two segments, so that every process that loads some twenty of them pays little:

    read, execute   headers, symbols, strings, hash table, versions, relocations, stubs
    read, write     the dynamic section and the slots of the functions that the stubs jump to; read-only once relocated

There are no sections, and nothing runs at load time. The string table serves twice: a stub passes the name of its
function as it stands there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gmlake.emulator.standins import elf
from gmlake.emulator.standins.machines import Machine

UNIMPLEMENTED = "gmlake_device_unimplemented"  # int (const char* symbol, int code)
NOOP = "gmlake_device_noop"  # int (const char* symbol)


@dataclass(frozen=True, order=True)
class Function:
    """A function to define: with a code it reports itself and returns the code, without one it does nothing."""

    symbol: str
    version: str = ""
    code: int | None = None


@dataclass(frozen=True)
class Contents:
    """What a library is to be: its name, the libraries it needs, its versions (also unused ones), its functions."""

    soname: str
    needed: Sequence[str]
    versions: Collection[str] = ()
    functions: Collection[Function] = ()


def library(machine: Machine, contents: Contents) -> bytes:
    """The bytes of a shared object."""
    return _Image(machine, contents).build()


class _Strings:
    """The string table; the same text is stored once."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._places: dict[str, int] = {"": 0}

    def place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._places[text]


class _Image:
    """One file in the making: tables first, then addresses, then what contains addresses."""

    def __init__(self, machine: Machine, contents: Contents) -> None:
        self._machine = machine
        self._soname = contents.soname
        self._needed = contents.needed
        functions = contents.functions
        self._handlers = sorted({_handler(function) for function in functions})
        self._bucket_count = max(1, len(functions) // 2)
        hashed = [(elf.gnu_hash(function.symbol.encode()), function) for function in functions]
        # Symbols of a bucket stand together, as the hash table demands.
        self._hashed = sorted(hashed, key=lambda row: (row[0] % self._bucket_count, row[1].symbol, row[1].version))
        self._versions = sorted({*contents.versions, *(function.version for function in functions)} - {""})
        self._strings = _Strings()

    def build(self) -> bytes:
        """Lay everything out."""
        strings = self._strings
        hash_table = self._hash_table()
        versions, definitions = self._version_tables()
        names = [strings.place(name) for name in (self._soname, *self._needed)]
        for name in [*self._handlers, *(function.symbol for _, function in self._hashed)]:
            strings.place(name)

        at = elf.HEADER.size + 5 * elf.PROGRAM.size
        symbols_at = _aligned(at, 8)
        hash_at = symbols_at + elf.SYMBOL.size * (1 + len(self._handlers) + len(self._hashed))
        relocations_at = _aligned(hash_at + len(hash_table), 8)
        definitions_at = relocations_at + elf.RELOCATION.size * len(self._handlers)
        versions_at = definitions_at + len(definitions)
        strings_at = versions_at + len(versions)
        stubs_at = _aligned(strings_at + len(strings.data), 16)
        code_end = stubs_at + self._machine.stub_size * len(self._hashed)
        dynamic_at = _aligned(code_end, self._machine.page)

        dynamic = [(elf.DT_SONAME, names[0]), *((elf.DT_NEEDED, name) for name in names[1:])]
        dynamic += [(elf.DT_GNU_HASH, hash_at), (elf.DT_STRTAB, strings_at), (elf.DT_SYMTAB, symbols_at)]
        dynamic += [(elf.DT_STRSZ, len(strings.data)), (elf.DT_SYMENT, elf.SYMBOL.size)]
        if self._handlers:
            size = elf.RELOCATION.size
            dynamic += [(elf.DT_RELA, relocations_at), (elf.DT_RELASZ, size * len(self._handlers))]
            dynamic += [(elf.DT_RELAENT, size)]
        if self._versions:
            dynamic += [(elf.DT_VERSYM, versions_at), (elf.DT_VERDEF, definitions_at)]
            dynamic += [(elf.DT_VERDEFNUM, 1 + len(self._versions))]
        dynamic += [(elf.DT_NULL, 0)]
        dynamic_size = elf.DYNAMIC.size * len(dynamic)
        slots_at = dynamic_at + dynamic_size
        end = slots_at + 8 * len(self._handlers)

        image = bytearray(end)

        def put(place: int, data: bytes | bytearray) -> None:
            image[place : place + len(data)] = data

        put(0, self._headers(code_end, dynamic_at, dynamic_size, end))
        put(symbols_at, self._symbols(stubs_at))
        put(hash_at, hash_table)
        put(relocations_at, self._relocations(slots_at))
        put(definitions_at, definitions)
        put(versions_at, versions)
        put(strings_at, strings.data)
        put(stubs_at, self._stubs(stubs_at, strings_at, slots_at))
        put(dynamic_at, b"".join(elf.DYNAMIC.pack(*row) for row in dynamic))
        return bytes(image)

    def _headers(self, code_end: int, dynamic_at: int, dynamic_size: int, end: int) -> bytes:
        """The file's header and its segments."""
        page = self._machine.page
        counts = (elf.HEADER.size, elf.PROGRAM.size, 5, 64, 0, 0)
        header = elf.HEADER.pack(
            elf.IDENTITY, elf.SHARED_OBJECT, self._machine.number, 1, 0, elf.HEADER.size, 0, 0, *counts
        )
        writable = end - dynamic_at
        # What the linker makes read-only again ends with a page, so the segment does as well.
        whole = _aligned(writable, page)
        segments = [
            (elf.LOAD, elf.READ | elf.EXECUTE, 0, 0, 0, code_end, code_end, page),
            (elf.LOAD, elf.READ | elf.WRITE, dynamic_at, dynamic_at, dynamic_at, writable, whole, page),
            (elf.DYNAMIC_SEGMENT, elf.READ | elf.WRITE, dynamic_at, dynamic_at, dynamic_at, *(2 * (dynamic_size,)), 8),
            (elf.STACK, elf.READ | elf.WRITE, 0, 0, 0, 0, 0, 16),
            (elf.RELRO, elf.READ, dynamic_at, dynamic_at, dynamic_at, writable, whole, 1),
        ]
        return header + b"".join(elf.PROGRAM.pack(*segment) for segment in segments)

    def _symbols(self, stubs_at: int) -> bytes:
        """Nothing, then the functions that are called, then those that are defined."""
        info = elf.GLOBAL << 4 | elf.FUNCTION
        rows = [(0, 0, 0, 0, 0, 0)]
        rows += [(self._strings.place(name), info, 0, elf.UNDEFINED, 0, 0) for name in self._handlers]
        size = self._machine.stub_size
        for number, (_, function) in enumerate(self._hashed):
            # Any section but the undefined and the absolute one will do: there are none.
            rows.append((self._strings.place(function.symbol), info, 0, 1, stubs_at + size * number, size))
        return b"".join(elf.SYMBOL.pack(*row) for row in rows)

    def _hash_table(self) -> bytes:
        """The table of DT_GNU_HASH. Its filter turns away nearly all names that are not here at the first look."""
        words, shift = 1, 6
        while words * 8 < len(self._hashed):
            words *= 2
        first = 1 + len(self._handlers)
        filter_words = [0] * words
        buckets = [0] * self._bucket_count
        chain = []
        for number, (value, _) in enumerate(self._hashed):
            filter_words[value // 64 % words] |= 1 << value % 64 | 1 << (value >> shift) % 64
            bucket = value % self._bucket_count
            buckets[bucket] = buckets[bucket] or first + number
            following = self._hashed[number + 1][0] if number + 1 < len(self._hashed) else None
            last = following is None or following % self._bucket_count != bucket
            chain.append(value & ~1 | last)
        numbers = struct.pack(f"<{len(buckets) + len(chain)}I", *buckets, *chain)
        header = elf.GNU_HASH.pack(self._bucket_count, first, words, shift)
        return header + struct.pack(f"<{words}Q", *filter_words) + numbers

    def _version_tables(self) -> tuple[bytes, bytes]:
        """Each symbol's version, and the versions; the first is the library itself and stands for none."""
        if not self._versions:
            return b"", b""
        numbers = {version: 2 + number for number, version in enumerate(self._versions)} | {"": elf.BASE_VERSION}
        indices = [0, *(elf.BASE_VERSION for _ in self._handlers)]
        indices += [numbers[function.version] for _, function in self._hashed]
        definitions = b""
        for number, name in enumerate([self._soname, *self._versions], start=1):
            is_base = number == elf.BASE_VERSION
            step = elf.VERSION_DEFINITION.size + elf.VERSION_NAME.size
            following = 0 if number == 1 + len(self._versions) else step
            hashed = elf.version_hash(name.encode())
            definitions += elf.VERSION_DEFINITION.pack(
                1, is_base, number, 1, hashed, elf.VERSION_DEFINITION.size, following
            )
            definitions += elf.VERSION_NAME.pack(self._strings.place(name), 0)
        return struct.pack(f"<{len(indices)}H", *indices), definitions

    def _relocations(self, slots_at: int) -> bytes:
        """One per slot: the address of the function that stubs jump to."""
        rows = [
            elf.RELOCATION.pack(slots_at + 8 * number, (1 + number) << 32 | self._machine.slot_relocation, 0)
            for number in range(len(self._handlers))
        ]
        return b"".join(rows)

    def _stubs(self, stubs_at: int, strings_at: int, slots_at: int) -> bytes:
        """The code of all functions."""
        text = bytearray()
        size = self._machine.stub_size
        for _, function in self._hashed:
            slot = slots_at + 8 * self._handlers.index(_handler(function))
            name = strings_at + self._strings.place(function.symbol)
            text += self._machine.stub(stubs_at + len(text), name, slot, function.code).ljust(size, b"\0")
        return bytes(text)


def _handler(function: Function) -> str:
    return NOOP if function.code is None else UNIMPLEMENTED


def _aligned(value: int, step: int) -> int:
    return -(-value // step) * step
