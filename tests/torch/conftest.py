"""Programs for the real PyTorch on an emulated device, each run under PyTorch's own allocator, under GMLake, or both.

A program prints JSON in its last line: its answer. What both runs answer is compared by the tests. GMLake serves over
the bridge where it can be compiled; what is basic is tried without it as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmlake.emulator.standins import find_torch
from gmlake.torch.bridge import building
from tests.emulator.running import Done, Emulated

HERE = Path(__file__).parent
Run = Callable[..., Any]


@pytest.fixture(scope="session")
def emulated() -> Emulated:
    """Runs programs on an emulated device, with the real PyTorch; the bridge is compiled before."""
    emulated = Emulated()
    folder = find_torch()
    assert folder is not None
    building.build(folder.parent)
    return emulated


@pytest.fixture(scope="session")
def bridge(emulated: Emulated) -> None:
    """Skip, or fail where it must not be missing, what needs the bridge."""
    folder = find_torch()
    assert folder is not None
    built = building.build(folder.parent)
    if built.library is None:
        if os.environ.get("REQUIRE_TORCH"):
            pytest.fail(built.reason)
        pytest.skip(f"the bridge cannot be had: {built.reason}")


@pytest.fixture(scope="session", params=["bridge", "plain"])
def either(emulated: Emulated, request: pytest.FixtureRequest) -> Run:
    """As gmlake, once over the bridge and once without it."""
    route = {"GMLAKE_BRIDGE": "1" if request.param == "bridge" else "0"}
    return lambda program, *options, env=None, **more: answer(
        emulated, program, "gmlake", *options, env=route | (env or {}), **more
    )


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
