"""The numbers of the ELF format that reading and writing share, and its two hash functions.

Only 64-bit little-endian shared objects: what PyTorch is built for on x86-64 and aarch64.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
DYNAMIC = struct.Struct("<qQ")
RELOCATION = struct.Struct("<QQq")
VERSION_NEED = struct.Struct("<HHIII")
VERSION_NEED_TAG = struct.Struct("<IHHII")
VERSION_DEFINITION = struct.Struct("<HHHHIII")
VERSION_NAME = struct.Struct("<II")
GNU_HASH = struct.Struct("<IIII")

IDENTITY = b"\x7fELF\x02\x01\x01" + bytes(9)
SHARED_OBJECT = 3

LOAD, DYNAMIC_SEGMENT, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552
EXECUTE, WRITE, READ = 1, 2, 4

DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB = 0, 1, 4, 5, 6
DT_RELA, DT_RELASZ, DT_RELAENT, DT_STRSZ, DT_SYMENT, DT_SONAME = 7, 8, 9, 10, 11, 14
DT_GNU_HASH, DT_VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF

GLOBAL, WEAK, FUNCTION = 1, 2, 2
UNDEFINED = 0
BASE_VERSION, HIDDEN = 1, 0x8000


def version_hash(name: bytes) -> int:
    """The System V hash, by which versions are compared."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value & 0xFFFFFFFF


def gnu_hash(name: bytes) -> int:
    """The hash of the DT_GNU_HASH table."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
