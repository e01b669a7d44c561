"""The machine code of a stub, for each processor that PyTorch's CUDA builds exist for.

A stub passes the address of its symbol's name, and a code if it has one, to a function whose address stands in a slot
that the dynamic linker fills. It keeps no frame: the function returns straight to the stub's caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What differs between processors."""

    name: str
    number: int  # e_machine
    page: int  # the largest page size that a kernel for it may have
    slot_relocation: int  # "store the address of this symbol"
    stub: Callable[[int, int, int, int | None], bytes]  # from the addresses of stub, name and slot, and the code
    stub_size: int


def _x86_64_stub(at: int, name: int, slot: int, code: int | None) -> bytes:
    text = b"\xf3\x0f\x1e\xfa"  # endbr64
    text += b"\x48\x8d\x3d" + struct.pack("<i", name - (at + len(text) + 7))  # lea rdi, [rip + name]
    if code is not None:
        text += b"\xbe" + struct.pack("<i", code)  # mov esi, code
    text += b"\xff\x25" + struct.pack("<i", slot - (at + len(text) + 6))  # jmp [rip + slot]
    return text


def _aarch64_stub(at: int, name: int, slot: int, code: int | None) -> bytes:
    words = [0xD503245F]  # bti c
    distance = name - (at + 4 * len(words))
    words.append(0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5)  # adr x0, name
    if code is not None:
        words.append(0x52800001 | (code & 0xFFFF) << 5)  # mov w1, low half
        words.append(0x72A00001 | (code >> 16 & 0xFFFF) << 5)  # movk w1, high half, lsl 16
    distance = slot - (at + 4 * len(words))
    words.append(0x58000010 | (distance >> 2 & 0x7FFFF) << 5)  # ldr x16, slot
    words.append(0xD61F0200)  # br x16
    return struct.pack(f"<{len(words)}I", *words)


X86_64 = Machine("x86_64", 62, 0x1000, 6, _x86_64_stub, 24)
AARCH64 = Machine("aarch64", 183, 0x10000, 1025, _aarch64_stub, 24)
MACHINES = {machine.number: machine for machine in (X86_64, AARCH64)}
