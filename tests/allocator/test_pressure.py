"""Recorded programs with hardly more memory than they use, the books checked along the way."""

from __future__ import annotations

import pytest

from gmlake._core import ReplayOutcome, make_allocator, replay, trace_peaks
from gmlake.trace import Trace, bundled_names, read_trace

from .memory import MIB, PAGE, Lake

CHECKS = 300


def run(trace: Trace, lake: Lake) -> ReplayOutcome:
    return replay(
        trace.kind,
        trace.id,
        trace.size,
        trace.stream,
        lake.allocator,
        lake.driver,
        check_every=max(1, len(trace.kind) // CHECKS),
    )


def peak_active(trace: Trace) -> int:
    return trace_peaks(trace.kind, trace.id, trace.size, trace.stream)[1]


@pytest.mark.parametrize("name", bundled_names())
@pytest.mark.parametrize("share", [1.03, 1.01, 1.0, 0.97])
def test_a_tight_device(name: str, share: float) -> None:
    trace = read_trace(name)
    capacity = int(peak_active(trace) * share) // PAGE * PAGE
    lake = Lake(capacity=capacity)
    outcome = run(trace, lake)
    lake.allocator.check()
    assert outcome.peak_reserved <= capacity
    assert lake.driver.physical_bytes == lake.stat("reserved_bytes")
    if share < 1:
        assert outcome.out_of_memory is not None
        assert "out of memory on device 0" in outcome.out_of_memory_message
    if share >= 1.03 and capacity > 256 * MIB:
        assert outcome.out_of_memory is None, outcome.out_of_memory_message


@pytest.mark.parametrize("name", bundled_names())
def test_what_is_left_after_a_trace_goes_back(name: str) -> None:
    trace = read_trace(name)
    lake = Lake(capacity=int(peak_active(trace) * 1.02) // PAGE * PAGE)
    run(trace, lake)
    left = [
        block.address
        for segment in lake.allocator.segments()
        for block in segment.blocks
        if block.state == "active_allocated"
    ]
    lake.give(*left)
    lake.allocator.trim()
    lake.assert_empty()


@pytest.mark.parametrize(
    "options", ["target=1", "target=0.5", "address_budget=0", "chunk_limit=2MiB", "small_limit=512B"]
)
def test_every_setting_is_sound(options: str) -> None:
    trace = read_trace("demo")
    lake = Lake(capacity=int(peak_active(trace) * 1.05) // PAGE * PAGE)
    lake.allocator = make_allocator(f"gmlake:{options}", lake.driver)
    run(trace, lake)
    lake.allocator.check()
