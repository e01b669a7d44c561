"""Pickles of plain types, and nothing else: numbers, strings, lists, dicts, and tuples of numbers.

A pickle is a program. This one is read twice: first every opcode is compared with the short list that a
memory snapshot needs (what the public memory viewer understands, less what could reserve memory it does not
fill or nest so deep that hashing it overflows the stack); only then Python's unpickler runs, with every
import refused all the same.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from typing import Any, NoReturn

from gmlake.trace.errors import TraceError

# Whole runs of opcodes of fixed length, so that scanning costs a third of loading. A tuple of two numbers (a
# pool's id) is one item here: a tuple opcode anywhere else is refused, hence tuples never nest.
_INTEGER = rb"K.|M..|J....|\x8a\x05.{5}|\x8a\x06.{6}|\x8a\x07.{7}|\x8a\x08.{8}"
_PLAIN = rb"[\]})(aesuldN\x88\x89\x94]|[hq].|j....|[G\x95].{8}"
_RUN = re.compile(rb"(?:%b|(?:%b){2}\x86|%b){1,4000}" % (_PLAIN, _INTEGER, _INTEGER), re.DOTALL)
_LENGTH_BYTES = {0x8C: 1, ord("X"): 4, 0x8D: 8}  # strings, by the width of their length
_WITH_ARGUMENT, _LONGEST = b"KMJ\x8ahqjrG\x95", 10  # admitted, but they do not match when they are cut off
_LONG_BINPUT, _STOP = ord("r"), ord(".")
_OLD = (b"(d", b"(l", b"}q", b"]q")  # how a dict or a list begins in protocols 0 and 1, which have no head


def sniff(data: bytes) -> bool:
    """Does it begin as a pickle of protocol 2 to 5, or is it an older one?"""
    return (len(data) > 1 and data[0] == 0x80 and 2 <= data[1] <= 5) or _is_old(data)


def _is_old(data: bytes) -> bool:
    return data.startswith(_OLD) and data.endswith(b".")


def load(data: bytes) -> Any:
    """The object of a pickle of plain types; TraceError for any other."""
    _admit(data)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # whatever the unpickler stumbles over in a pickle that makes no sense
        raise TraceError("is not an intact pickle") from error


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain type")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise pickle.UnpicklingError("references to other objects are not plain types")


def _admit(data: bytes) -> None:
    if _is_old(data):
        raise TraceError("is a pickle of protocol 0 or 1, expected 2 to 5: load it and dump it again with protocol=4")
    if data.count(b"}") + data.count(b"]") > len(data) // 4 + 64:
        raise TraceError("is a pickle of almost nothing but empty lists and dicts, expected a memory snapshot")
    position, end = 2, len(data)
    while position < end:
        run = _RUN.match(data, position)
        if run is not None:
            position = run.end()
            continue
        opcode = data[position]
        if opcode in _LENGTH_BYTES:
            text = position + 1 + _LENGTH_BYTES[opcode]
            position = text + int.from_bytes(data[position + 1 : text], "little")
        elif opcode == _LONG_BINPUT and int.from_bytes(data[position + 1 : position + 5], "little") < end:
            position += 5
        elif opcode == _STOP:
            if position + 1 != end:
                raise TraceError(f"has {end - position - 1} bytes after the end of its pickle")
            return
        else:
            _refuse(opcode, position, end)
    raise TraceError("is a pickle that is cut short")


def _refuse(opcode: int, position: int, end: int) -> NoReturn:
    known = next((known.name for known in pickletools.opcodes if ord(known.code) == opcode), None)
    if known is None or (opcode in _WITH_ARGUMENT and end - position < _LONGEST):
        raise TraceError(f"is a pickle that is damaged or cut short at byte {position}")
    raise TraceError(f"is a pickle that asks for {known} at byte {position}, expected plain types only")
