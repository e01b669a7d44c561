"""Traces that are read together have names that tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmlake import report
from gmlake.replay import Settings
from gmlake.trace import read_trace, read_traces, write_trace
from gmlake.trace.naming import distinct_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["one.csv", "x/two.pickle.gz"], ["one", "two"]),
        (
            ["rank0/snapshot.pickle", "rank1/snapshot.pickle", "other.gmt"],
            ["rank0/snapshot", "rank1/snapshot", "other"],
        ),
        (["x/a/run.csv", "y/a/run.csv", "b/run.csv"], ["x/a/run", "y/a/run", "b/run"]),
        (["a/run.csv", "a/run.npz"], ["run.csv", "run.npz"]),
        (["a/run.csv", "a/run.csv"], ["run", "run"]),
        (["/run.csv", "/run/run.csv"], ["run", "run/run"]),
    ],
)
def test_names(paths: list[str], names: list[str]) -> None:
    assert distinct_names([Path(path) for path in paths]) == names


def test_whatever_reads_several_names_them(tmp_path: Path) -> None:
    trace = read_trace("snapshot")
    files = [tmp_path / rank / "snapshot.pickle" for rank in ("rank0", "rank1")]
    for file in files:
        file.parent.mkdir()
        write_trace(trace, file)
    expected = ["rank0/snapshot", "rank1/snapshot"]
    assert [one.name for one in read_traces(files)] == expected
    subjects = report.gather(files, ["caching"], Settings())
    assert [subject.name for subject in subjects] == expected
    assert [result.trace for subject in subjects for result in subject.results] == expected
