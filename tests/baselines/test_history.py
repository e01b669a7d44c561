"""The caching rival continues recorded histories, and says where it would have decided otherwise."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gmlake._core import SimulatedDriver, adopt, give_back, make_allocator, place
from gmlake.errors import InvalidArgument
from gmlake.replay.fidelity import check_snapshot, spec_of
from gmlake.replay.initial_state import initial_segments

from .bench import KIB, MIB, Bench

RECORDED = {  # file: events that get a segment
    "lm-medium-ctx512-train": 1,
    "lm-medium-ctx128-train": 0,
    "lm-xl-ctx128-fullstep": 783,
    "finetune-small": 152,
}
BASE = 0x7F00_0000_0000
Event = dict[str, Any]


@pytest.mark.parametrize(("name", "segment_events"), RECORDED.items())
def test_histories_of_gpus_are_reproduced_to_the_last_event(shared_data: Path, name: str, segment_events: int) -> None:
    with gzip.open(shared_data / f"{name}.snapshot.json.gz") as file:
        snapshot = json.load(file)
    report = check_snapshot(snapshot)
    assert report.differences == []
    assert report.allocations_at_address == report.allocations > 3000
    assert report.segment_events_reproduced == report.segment_events == segment_events
    assert report.unrecorded_segment_events == 0


def event(action: str, address: int, size: int) -> Event:
    return {"action": action, "addr": address, "size": size, "stream": 0}


def freed(address: int, size: int) -> list[Event]:
    return [event("free_requested", address, size), event("free_completed", address, size)]


def segment(address: int, *blocks: tuple[int, int, bool], kind: str = "large") -> Event:
    """A segment from its blocks' (size, requested, active)."""
    described, at = [], address
    for size, requested, active in blocks:
        state = "active_allocated" if active else "inactive"
        described.append({"address": at, "size": size, "requested_size": requested, "state": state})
        at += size
    return {
        "device": 0,
        "address": address,
        "total_size": at - address,
        "stream": 0,
        "segment_type": kind,
        "blocks": described,
    }


def snapshot(segments: list[Event], events: list[Event], **settings: Any) -> Event:
    return {"segments": segments, "device_traces": [events], "allocator_settings": settings}


def test_what_was_live_before_the_history_is_found() -> None:
    end = [segment(BASE, (4 * MIB, 0, False), (6 * MIB, 6 * MIB, True), (10 * MIB, 0, False))]
    [found] = initial_segments(end, freed(BASE, 4 * MIB))
    assert found.blocks() == [(4 * MIB, 4 * MIB, True), (6 * MIB, 6 * MIB, True), (10 * MIB, 0, False)]


def test_segments_that_the_history_made_or_gave_back() -> None:
    end = [segment(BASE, (2 * MIB, 0, False), kind="small"), segment(BASE + 64 * MIB, (20 * MIB, 0, False))]
    events = [
        event("segment_free", BASE + 128 * MIB, 30 * MIB),
        event("segment_alloc", BASE + 64 * MIB, 20 * MIB),
        event("alloc", BASE + 64 * MIB, 2 * MIB),
        *freed(BASE + 64 * MIB, 2 * MIB),
    ]
    found = initial_segments(end, events)
    assert [(s.address - BASE, s.size, s.kind) for s in found] == [
        (0, 2 * MIB, "small"),
        (128 * MIB, 30 * MIB, "large"),
    ]


@pytest.mark.parametrize("seen", ["next block", "allocation"])
def test_a_large_block_keeps_what_was_too_small_to_split(seen: str) -> None:
    after = 10 * MIB
    if seen == "next block":
        end = [segment(BASE, (after, 0, False), (10 * MIB, 10 * MIB, True))]
        events = freed(BASE, after - 512 * KIB)
    else:
        end = [segment(BASE, (20 * MIB, 0, False))]
        events = [
            event("alloc", BASE + after, 2 * MIB),
            *freed(BASE, after - 512 * KIB),
            *freed(BASE + after, 2 * MIB),
        ]
    [found] = initial_segments(end, events)
    assert found.live[0] == (0, after, after - 512 * KIB)


def test_a_block_outside_all_segments_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=hex(BASE)):
        initial_segments([], freed(BASE, KIB))


def test_a_small_history_is_reproduced() -> None:
    other = BASE + 64 * MIB
    events = [
        event("alloc", BASE, 4 * MIB),
        event("segment_alloc", other, 30 * MIB),
        event("alloc", other, 30 * MIB),
        *freed(other, 30 * MIB),
        event("segment_free", other, 30 * MIB),
        event("alloc", BASE + 4 * MIB, 4 * MIB),
    ]
    end = [segment(BASE, (4 * MIB, 4 * MIB, True), (4 * MIB, 4 * MIB, True), (12 * MIB, 0, False))]
    report = check_snapshot(snapshot(end, events))
    assert report.exact
    assert (report.segment_events, report.segment_events_reproduced) == (2, 2)
    assert (report.allocations, report.allocations_at_address) == (3, 3)


def test_a_wrong_address_is_one_difference_and_no_more() -> None:
    events = [
        event("alloc", BASE + 8 * MIB, 4 * MIB),  # best fit would take the beginning
        event("alloc", BASE, 4 * MIB),
        *freed(BASE + 8 * MIB, 4 * MIB),
        event("alloc", BASE + 4 * MIB, 16 * MIB),
    ]
    report = check_snapshot(snapshot([segment(BASE, (20 * MIB, 0, False))], events))
    assert [difference.event for difference in report.differences] == [0]
    assert (report.allocations, report.allocations_at_address) == (3, 2)


def test_a_segment_too_many_is_adopted_and_one_too_few_is_given_back() -> None:
    other, third = BASE + 64 * MIB, BASE + 128 * MIB
    events = [
        event("segment_alloc", other, 20 * MIB),  # although 4 MiB fit into the free segment
        event("alloc", other, 4 * MIB),
        event("alloc", BASE, 4 * MIB),
        event("alloc", third, 60 * MIB),  # in a segment that nobody asked for
    ]
    end = [
        segment(BASE, (4 * MIB, 4 * MIB, True), (6 * MIB, 0, False)),
        segment(other, (4 * MIB, 4 * MIB, True), (16 * MIB, 0, False)),
        segment(third, (60 * MIB, 60 * MIB, True)),
    ]
    report = check_snapshot(snapshot(end, events[:3]))
    assert [difference.event for difference in report.differences] == [1]
    assert report.segment_events_reproduced == 0
    report = check_snapshot(snapshot(end, events))
    assert report.unrecorded_segment_events == 0
    assert [difference.event for difference in report.differences] == [1]


def test_an_unrecorded_segment_is_counted() -> None:
    events = [event("alloc", BASE, 30 * MIB)]
    report = check_snapshot(snapshot([segment(BASE, (10 * MIB, 10 * MIB, True))], events), ties="address")
    assert report.unrecorded_segment_events == 1
    assert len(report.differences) == 1


def test_settings_of_the_snapshot_are_used() -> None:
    divisions = {"1": 0, "2": 4, "4": 0}
    settings = {"max_split_size": 40 * MIB, "roundup_power2_divisions": divisions}
    spec = spec_of(settings, "address")
    assert spec == "caching:ties=address,max_split_size_mb=40,roundup_power2_divisions=[1:0,2:4,4:0]"
    make_allocator(spec, SimulatedDriver())


def test_histories_of_expandable_segments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="expandable"):
        check_snapshot(snapshot([], [], expandable_segments=True))


def test_only_the_caching_allocator_adopts() -> None:
    for spec in ("expandable", "paper", "bfc", "native"):
        allocator = make_allocator(spec, SimulatedDriver())
        with pytest.raises(InvalidArgument, match="caching"):
            adopt(allocator, BASE, 0, "large", [(20 * MIB, 0, False)])


def test_a_segment_elsewhere_is_not_adopted() -> None:
    bench = Bench("caching")
    with pytest.raises(InvalidArgument, match=str(BASE)):
        adopt(bench.allocator, BASE, 0, "large", [(20 * MIB, 0, False)])
    assert bench.driver.physical_bytes == 0


def test_placing_and_giving_back() -> None:
    bench = Bench("caching")
    bench.driver.hand_out([BASE])
    adopt(bench.allocator, BASE, 0, "large", [(20 * MIB, 0, False)])
    assert place(bench.allocator, BASE + 4 * MIB, 3 * MIB, 0)
    bench.allocator.check()
    assert [b.size for b in bench.segment_of(BASE).blocks] == [4 * MIB, 3 * MIB, 13 * MIB]
    assert not place(bench.allocator, BASE + 6 * MIB, 2 * MIB, 0)
    assert not place(bench.allocator, BASE, 2 * MIB, 1)
    assert not place(bench.allocator, BASE + 18 * MIB, 3 * MIB, 0)
    assert not give_back(bench.allocator, BASE)
    bench.give(BASE + 4 * MIB)
    assert give_back(bench.allocator, BASE)
    bench.allocator.check()
    assert bench.driver.physical_bytes == 0
