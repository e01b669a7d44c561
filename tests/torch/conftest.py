"""Programs for the real PyTorch on an emulated device, each run under PyTorch's own allocator, under GMLake, or both.

A program prints JSON in its last line: its answer. What both runs answer is compared by the tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.running import Done, Emulated

HERE = Path(__file__).parent
Run = Callable[..., Any]


@pytest.fixture(scope="session")
def emulated() -> Emulated:
    """Runs programs on an emulated device, with the real PyTorch."""
    return Emulated()


@pytest.fixture(scope="session")
def gmlake(emulated: Emulated) -> Run:
    """The answer of a program that GMLake serves; a name is that of a file here."""
    return lambda program, *options, **more: answer(emulated, program, "gmlake", *options, **more)


@pytest.fixture(scope="session")
def native(emulated: Emulated) -> Run:
    """The answer of a program that PyTorch's own allocator serves."""
    return lambda program, *options, **more: answer(emulated, program, "torch", *options, **more)


def answer(emulated: Emulated, program: str, allocator: str, *options: object, **more: Any) -> Any:
    """What the program printed last."""
    source = HERE / program if program.endswith(".py") else program
    done = emulated(source, "--allocator", allocator, *options, **more)
    return last_line(done)


def last_line(done: Done) -> Any:
    """The answer in what was printed; the program must have ended well."""
    assert done.status == 0, done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1])
