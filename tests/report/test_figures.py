"""The numbers behind reports and plots, beside what the replay itself counts."""

from __future__ import annotations

import numpy as np
import pytest

from gmlake import _core
from gmlake.replay import Settings, replay
from gmlake.report import figures, palette, sites
from gmlake.trace import Frame, Kind, Trace, read_trace
from gmlake.trace.trace import I64

ALLOCATORS = [row.name for row in _core.catalogue()]


def test_active_memory_peaks_where_the_replay_says(snapshot: Trace, called: Trace) -> None:
    for trace in (snapshot, called):
        active = figures.active(figures.blocks_of(trace), len(trace))
        _, peak = _core.trace_peaks(trace.kind, trace.id, trace.size, trace.stream)
        assert active.max() == peak
        assert active[figures.peak_event(active)] == peak


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_map_agrees_with_the_allocators_own_figures(allocator: str, snapshot: Trace) -> None:
    run = replay(snapshot, allocator, Settings(memory_map=True, timeline=True))
    assert run.memory_map is not None and run.timeline is not None
    reserved = figures.reserved(run.memory_map, len(snapshot))
    assert reserved.max() == run.result.peak_reserved
    sampled = run.timeline[:, 0]
    # While an event is served more may be held than after it.
    after = np.concatenate(([0], np.cumsum(run.memory_map.held[:, 2])))
    last = np.searchsorted(run.memory_map.held[:, 0], sampled, side="right")
    np.testing.assert_array_equal(after[last], run.timeline[:, 3])
    assert (reserved[sampled] >= run.timeline[:, 3]).all()


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_blocks_lie_in_memory_that_is_held_and_never_share_it(allocator: str, snapshot: Trace) -> None:
    blocks, events = figures.blocks_of(snapshot), len(snapshot)
    memory_map = replay(snapshot, allocator, Settings(memory_map=True)).memory_map
    assert memory_map is not None
    spans = figures.held_spans(memory_map, events)
    of, place, size = memory_map.pieces.T
    np.testing.assert_array_equal(np.bincount(of, weights=size), -(-blocks.size // 256) * 256)
    for event in np.linspace(0, events - 1, 60, dtype=np.int64).tolist():
        held = spans[(spans[:, 0] <= event) & (event < spans[:, 1])]
        held = held[np.argsort(held[:, 2])]
        assert (held[1:, 2] >= held[:-1, 2] + held[:-1, 3]).all()
        live = np.flatnonzero((blocks.start[of] <= event) & (event < blocks.end[of]))
        live = live[np.argsort(place[live])]
        begin, end = place[live], place[live] + size[live]
        assert (begin[1:] >= end[:-1]).all()
        assert _covered(begin, end, held[:, 2], held[:, 2] + held[:, 3])


def _covered(begin: I64, end: I64, low: I64, high: I64) -> bool:
    """Whether every span from begin to end lies in the spans from low to high, neighbours taken together."""
    opens = np.flatnonzero(np.append(True, low[1:] != high[:-1]))
    low, high = low[opens], high[np.append(opens[1:], len(high)) - 1]
    inside = np.searchsorted(low, begin, side="right") - 1
    return bool((inside >= 0).all() and (end <= high[inside]).all())


def test_stitched_blocks_are_several_pieces_and_those_of_pytorch_are_not() -> None:
    trace = read_trace("fsdp")
    for allocator, scattered in {"gmlake": True, "caching": False}.items():
        memory_map = replay(trace, allocator, Settings(memory_map=True)).memory_map
        assert memory_map is not None
        assert bool(np.bincount(memory_map.pieces[:, 0]).max() > 1) is scattered


def test_places_cannot_be_kept_once_there_is_memory() -> None:
    driver = _core.SimulatedDriver()
    driver.allocate(1 << 20)
    with pytest.raises(_core.InvalidArgument, match="holds memory already"):
        driver.keep_places()


def test_what_is_live_adds_up(snapshot: Trace, called: Trace) -> None:
    for trace in (snapshot, called):
        blocks = figures.blocks_of(trace)
        active = figures.active(blocks, len(trace))
        for event in (0, len(trace) // 2, figures.peak_event(active), len(trace) - 1):
            groups = figures.live_groups(trace, blocks, event)
            assert sum(group.bytes for group in groups) == active[event]
            assert sum(group.blocks for group in groups) == len(blocks.live(event))


def test_histograms_count_every_block_once(snapshot: Trace) -> None:
    blocks = figures.blocks_of(snapshot)
    for histogram in (figures.size_histogram(blocks), figures.lifetime_histogram(blocks)):
        assert histogram.blocks.sum() == len(blocks.size)
        assert histogram.bytes.sum() == blocks.rounded.sum()
        assert len(histogram.names) == len(histogram.blocks) == len(set(histogram.names))
    unfreed = len(blocks.size) - np.count_nonzero(snapshot.kind == Kind.FREE)
    lifetimes = figures.lifetime_histogram(blocks)
    assert (lifetimes.names[-1], lifetimes.blocks[-1]) == ("not freed", unfreed)


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (1, "up to 512 B"),
        (512, "up to 512 B"),
        (513, "512 B to 1 KiB"),
        (2**20, "512 KiB to 1 MiB"),
        (2**20 + 1, "1 to 2 MiB"),
        (700 * 2**20, "512 MiB to 1 GiB"),
    ],
)
def test_size_classes_by_name(size: int, name: str) -> None:
    assert figures.class_name(int(figures.size_class(np.array([size]))[0])) == name


def test_the_telling_frame_is_the_innermost_outside_pytorch(called: Trace) -> None:
    assert called.call_sites is not None
    labels = sites.labels(called.call_sites)
    assert labels[0] == "model.py:42 forward"
    assert labels[2] == "train.py:9 main"
    assert sites.frame_text(Frame("??", 0, "run()")) == "run()"


def test_every_allocator_has_a_colour_of_its_own() -> None:
    names = [*ALLOCATORS, "caching:max_split_size_mb=128", "gmlake:target=0.9"]
    colours = palette.allocator_colours(names)
    assert list(colours) != [] and set(colours) == set(names)
    assert len(set(colours.values())) == len(names)
    variants = palette.allocator_colours([f"caching:max_split_size_mb={size}" for size in (64, 128, 256)])
    assert not set(variants.values()) & set(palette.ALLOCATORS.values())  # nobody is taken for somebody else
    assert palette.allocator_colours(["x", "y"])["x"] != palette.allocator_colours(["x", "y"])["y"]
