"""The bundled traces: the whole paper suite and more, each as the manifest says and as PyTorch itself allocated."""

from __future__ import annotations

import pytest

from gmlake.replay import replay
from gmlake.trace import read_trace
from gmlake.workloads.catalogue import suites, workloads
from gmlake.workloads.recording import VERSIONS, read_manifest
from gmlake.workloads.running import BUNDLED

MANIFEST = read_manifest(BUNDLED)
TASKS = {"text", "generation", "images", "diffusion"}
REPLAYED = ("tiny/zero3/LR/2gpu/b8/var", "vicuna-13b/zero3/RO/4gpu/b132/fix", "gpt2-1.5b/gemini/LR/4gpu/b120/var")


def test_the_suites_are_bundled_and_nothing_else_is() -> None:
    bundled = {name for name, workload in workloads().items() if (BUNDLED / workload.file_name).exists()}
    assert {workload.id for name in ("paper", "quick") for workload in suites()[name]} <= bundled
    assert {workload.task for name, workload in workloads().items() if name in bundled} == TASKS
    assert len(bundled) == len(list(BUNDLED.glob("*.gmt"))) >= 80
    assert set(MANIFEST) == bundled


def test_all_together_are_small() -> None:
    assert sum(path.stat().st_size for path in BUNDLED.iterdir()) < 8 << 20


@pytest.mark.parametrize("name", MANIFEST)
def test_the_manifest_fits_the_catalogue(name: str) -> None:
    entry, workload = MANIFEST[name], workloads()[name]
    assert (entry["iterations"], entry["seed"]) == (workload.iterations, workload.seed)
    assert entry["versions"] == VERSIONS


def test_recording_stays_within_its_budget() -> None:
    """At most a minute for an iteration and 4 GB of the host's memory, for whatever model."""
    assert max(entry["seconds_per_iteration"] for entry in MANIFEST.values()) <= 60
    assert max(entry["host_bytes"] for entry in MANIFEST.values()) <= 4 * 10**9


@pytest.mark.parametrize("name", REPLAYED)
def test_the_caching_baseline_reserves_what_pytorch_reserved(name: str) -> None:
    """To the byte: the manifest has what PyTorch's own allocator reserved while the trace was recorded."""
    trace = read_trace(BUNDLED / workloads()[name].file_name)
    assert (len(trace), trace.iterations) == (MANIFEST[name]["events"], MANIFEST[name]["iterations"])
    assert replay(trace, "caching").result.peak_reserved == MANIFEST[name]["peak_reserved"]
