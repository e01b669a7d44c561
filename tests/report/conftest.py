"""A browser for all tests of a run, and traces whose reports are small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gmlake import report
from gmlake.report import Subject
from gmlake.trace import CallSites, Frame, Kind, Trace, read_trace

from .browser import Browser, find_chromium

MIB = 2**20
HOSTILE = "</script><img src=x onerror='window.hacked=1'>"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium, started once."""
    if find_chromium() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with Browser() as running:
        yield running


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The same for every test: a window of the usual size, light."""
    chromium.resize(1280, 900)
    chromium.prefer("light")
    return chromium


@pytest.fixture(scope="session")
def snapshot() -> Trace:
    """A recorded step of a small fine-tuning."""
    return read_trace("snapshot")


@pytest.fixture(scope="session")
def subject(snapshot: Trace) -> Subject:
    """The snapshot on four allocators."""
    return report.gather([snapshot])[0]


@pytest.fixture(scope="session")
def page(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report about the snapshot."""
    path = tmp_path_factory.mktemp("report") / "snapshot.html"
    report.write_subjects([subject], path)
    return path


def small(name: str, *rows: tuple[int, int, int, int]) -> Trace:
    """A trace of rows of kind, id, size and stream."""
    kind, ids, size, stream = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Trace(
        kind.astype(np.uint8), ids.astype(np.uint32), size.astype(np.int64), stream.astype(np.uint32), name=name
    )


ODD = [
    small("empty"),
    small("one", (0, 0, 1, 0)),
    small("nothing", (0, 0, 0, 0), (1, 0, 0, 0)),
    small("mark", (2, 0, 0, 0)),
    small("huge", (0, 0, 1 << 45, 0), (1, 0, 0, 0)),
]


@pytest.fixture(scope="session")
def called() -> Trace:
    """A trace with iterations, two streams and call sites, one of which bears a hostile name."""
    frames = (
        Frame("/usr/lib/python3/dist-packages/torch/nn/functional.py", 7, "linear"),
        Frame("/home/me/model.py", 42, "forward"),
        Frame(f"/tmp/{HOSTILE}.py", 1, HOSTILE),
        Frame("/home/me/train.py", 9, "main"),
    )
    sites = CallSites(frames, ((0, 1, 3), (0, 2, 3), (3,)))
    rows = [(Kind.ALLOCATE, 0, 512 * MIB, 0, 2)]
    for iteration in range(6):
        first = 1 + 3 * iteration
        rows += [
            (Kind.ITERATION, iteration, 0, 0, -1),
            (Kind.ALLOCATE, first, (40 + iteration) * MIB, 0, 0),
            (Kind.ALLOCATE, first + 1, (90 - iteration) * MIB, 1, 1),
            (Kind.FREE, first, 0, 0, -1),
            (Kind.ALLOCATE, first + 2, 70 * MIB + 1, 0, -1),
            (Kind.FREE, first + 1, 0, 0, -1),
            (Kind.FREE, first + 2, 0, 0, -1),
        ]
    kind, ids, size, stream, site = np.array(rows, dtype=np.int64).T
    return Trace(
        kind=kind.astype(np.uint8),
        id=ids.astype(np.uint32),
        size=size.astype(np.int64),
        stream=stream.astype(np.uint32),
        name=HOSTILE,
        streams=(0, 7),
        marks_from="recorded",
        site=site.astype(np.int32),
        call_sites=sites,
    )
