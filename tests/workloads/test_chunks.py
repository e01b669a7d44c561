"""The engine that is written here learns what an ordinary model learns: same losses, same gradients, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.running import Emulated

PROGRAM = Path(__file__).parent / "chunks.py"


@pytest.mark.parametrize("frozen", [(), ("frozen",)])
def test_chunks_do_not_change_what_is_learnt(frozen: tuple[str, ...]) -> None:
    done = Emulated()(PROGRAM, "--world-size", 1, "--compute", arguments=frozen)
    assert done.status == 0, done.stderr[-4000:]
    assert done.stdout == "same\n"
