"""The catalogue of cards that can be emulated, with the properties that PyTorch reads of them.

The memory is what CUDA reports (cudaDeviceProp.totalGlobalMem, torch's `total_memory`), which is less than the name
of the card says: the driver and ECC keep a part. It differs by some MiB between driver versions; each number here is
one that was seen on such a card, with `seen` saying where. Only the B200's is rounded to a MiB, because only that was
to be had. What a card computes, and how fast, is not emulated, so the catalogue does not know it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from gmlake.errors import UserError

_MIB = 1 << 20


@dataclass(frozen=True)
class Device:
    """One card as CUDA describes it."""

    key: str  # what the user writes
    name: str  # what the driver says
    memory: int  # bytes
    capability: tuple[int, int]
    multiprocessors: int
    bus_width: int  # bits
    l2_bytes: int
    clock_mhz: int
    memory_clock_mhz: int
    seen: str  # where the memory figure comes from
    peers: bool = True  # whether two of them reach each other's memory

    def with_memory(self, memory: int | None) -> Device:
        """The same card with another amount of memory, or unchanged for None."""
        return self if memory is None else replace(self, memory=memory)


CATALOGUE: tuple[Device, ...] = (
    Device(
        "a100-40g",
        "NVIDIA A100-SXM4-40GB",
        42298834944,
        (8, 0),
        multiprocessors=108,
        bus_width=5120,
        l2_bytes=40 * _MIB,
        clock_mhz=1410,
        memory_clock_mhz=1215,
        seen="deviceQuery with driver 535; torch prints 39.39 GiB",
    ),
    Device(
        "a100-80g",
        "NVIDIA A100-SXM4-80GB",
        85094825984,
        (8, 0),
        multiprocessors=108,
        bus_width=5120,
        l2_bytes=40 * _MIB,
        clock_mhz=1410,
        memory_clock_mhz=1593,
        seen="torch's total_memory, 79.25 GiB; others saw 79.15 to 79.26",
    ),
    Device(
        "h100-80g",
        "NVIDIA H100 80GB HBM3",
        85028896768,
        (9, 0),
        multiprocessors=132,
        bus_width=5120,
        l2_bytes=50 * _MIB,
        clock_mhz=1980,
        memory_clock_mhz=2619,
        seen="deviceQuery with driver 570; torch prints 79.19 GiB; others saw 79.11 to 79.20",
    ),
    Device(
        "h200-141g",
        "NVIDIA H200",
        150109880320,
        (9, 0),
        multiprocessors=132,
        bus_width=6144,
        l2_bytes=60 * _MIB,
        clock_mhz=1980,
        memory_clock_mhz=3201,
        seen="torch's total_memory, 139.80 GiB; others saw 139.72 and 139.81",
    ),
    Device(
        "b200-192g",
        "NVIDIA B200",
        182631 * _MIB,
        (10, 0),
        multiprocessors=148,
        bus_width=7680,
        l2_bytes=253 * _MIB // 2,
        clock_mhz=1965,
        memory_clock_mhz=3996,
        seen="torch prints 182631MB and 178.35 GiB, so the last MiB is a guess; older drivers say 8192 bits",
    ),
    Device(
        "l40s-48g",
        "NVIDIA L40S",
        47576711168,
        (8, 9),
        multiprocessors=142,
        bus_width=384,
        l2_bytes=96 * _MIB,
        clock_mhz=2520,
        memory_clock_mhz=9001,
        seen="deviceQuery with driver 550; torch prints 44.31 GiB; others saw up to 44.52",
    ),
    Device(
        "rtx4090-24g",
        "NVIDIA GeForce RTX 4090",
        25250627584,
        (8, 9),
        multiprocessors=128,
        bus_width=384,
        l2_bytes=72 * _MIB,
        clock_mhz=2520,
        memory_clock_mhz=10501,
        seen="deviceQuery with driver 580; torch prints 23.52 GiB; others saw up to 23.99",
        peers=False,
    ),
    Device(
        "t4-16g",
        "Tesla T4",
        15642329088,
        (7, 5),
        multiprocessors=40,
        bus_width=256,
        l2_bytes=4 * _MIB,
        clock_mhz=1590,
        memory_clock_mhz=5001,
        seen="deviceQuery with driver 555; torch prints 14.57 GiB; older drivers say 14.76",
    ),
)


def device_keys() -> list[str]:
    """The names that `find_device` knows."""
    return [device.key for device in CATALOGUE]


def find_device(key: str) -> Device:
    """The card of that name; case does not matter."""
    wanted = key.strip().lower()
    for device in CATALOGUE:
        if device.key == wanted:
            return device
    close = difflib.get_close_matches(wanted, device_keys(), n=1, cutoff=0.4)
    hint = f", did you mean '{close[0]}'?" if close else "."
    raise UserError(f"the devices are {', '.join(device_keys())}, but none is called '{key}'{hint}")
