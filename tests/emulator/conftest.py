"""The machine that the tests of the device's own functions share: two small cards, and nothing takes time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulator.device import Device
from tests.emulator.running import Emulated

MEMORY = 256 << 20


@pytest.fixture(scope="session")
def machine() -> Device:
    return Device(f"memory={MEMORY};count=2;hazards=1")


@pytest.fixture(scope="session")
def emulated() -> Emulated:
    """Runs programs on an emulated device, with the real PyTorch."""
    return Emulated()


@pytest.fixture
def device(machine: Device) -> Iterator[Device]:
    """The same, and what a test takes it must give back."""
    before = machine.used(0), machine.used(1)
    machine.call("cudaSetDevice", 0)
    yield machine
    assert (machine.used(0), machine.used(1)) == before
