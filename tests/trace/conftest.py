"""Traces typed by hand, and files made of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmlake.trace import Trace

Row = tuple[int, int, int, int]  # kind, id, size, stream
MakeTrace = Callable[..., Trace]
MakeFile = Callable[[str, bytes], Path]


@pytest.fixture(scope="session")
def make_trace() -> MakeTrace:
    """Rows to a trace, unchecked."""

    def make(rows: Sequence[Row], **known: Any) -> Trace:
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        columns: dict[str, Any] = {
            "kind": table[:, 0].astype(np.uint8),
            "id": table[:, 1].astype(np.uint32),
            "size": table[:, 2].copy(),
            "stream": table[:, 3].astype(np.uint32),
        }
        return Trace(**{**columns, **known})

    return make


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    def make(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return make
