"""Options of the rivals: what they accept, what they refuse, and how requests are rounded."""

from __future__ import annotations

import pytest

from gmlake._core import SimulatedDriver, catalogue, make_allocator
from gmlake.errors import InvalidArgument

from .bench import GIB, KIB, MIB, Bench

RIVALS = ("caching", "expandable", "paper", "bfc", "native")


def test_every_rival_has_a_row() -> None:
    names = [row.name for row in catalogue()]
    assert set(RIVALS) <= set(names)
    assert all(row.meaning for row in catalogue())


def test_defaults_are_accepted_when_written_out() -> None:
    for row in catalogue():
        options = ",".join(f"{option.name}={option.fallback}" for option in row.options)
        make_allocator(f"{row.name}:{options}" if options else row.name, SimulatedDriver())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("slab", "'slab'"),
        ("native:size=1", "'size'"),
        ("caching:ties=newest", "'newest'"),
        ("caching:max_split_size_mb=19", "at least 20"),
        ("caching:large_segment_size_mb=10", "at least 11"),
        ("caching:garbage_collection_threshold=1", "below 1"),
        ("caching:roundup_power2_divisions=3", "power of two"),
        ("caching:roundup_power2_divisions=[256]", "256:4"),
        ("expandable:max_split_size_mb=x", "whole number"),
        ("paper:reuse_limit=0.5", "at least 1"),
        ("paper:defrag_level=3", "0, 1 or 2"),
        ("bfc:allow_growth=false", "memory_limit"),
        ("bfc:fragmentation_fraction=2", "from 0 to 1"),
    ],
)
def test_impossible_specs_name_the_value(spec: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said.replace("[", r"\[")):
        make_allocator(spec, SimulatedDriver())


@pytest.mark.parametrize(
    ("spec", "asked", "got"),
    [
        ("caching", 1, 512),
        ("caching", 512, 512),
        ("caching", 513, 1024),
        ("caching:roundup_power2_divisions=4", 1200 * KIB, 1280 * KIB),  # 1024, 1280, 1536, 1792
        ("caching:roundup_power2_divisions=4", 1537, 2048),  # not above 512 * 4: plain steps
        ("caching:roundup_power2_divisions=4", 4096, 4096),
        ("caching:roundup_power2_divisions=1", 1200 * KIB, 1200 * KIB),
        ("caching:roundup_power2_divisions=[256:1,512:2,>:8]", 300 * MIB - 512, 300 * MIB - 512),
        ("caching:roundup_power2_divisions=[256:1,512:2,>:8]", 520 * MIB, 768 * MIB),
        ("caching:roundup_power2_divisions=[256:1,512:2,>:8]", 1025 * MIB, 1152 * MIB),
        ("caching:roundup_power2_divisions=[256:4]", 33 * MIB, 40 * MIB),  # the first counts below it as well
        ("caching:roundup_power2_divisions=[256:4]", 1025 * MIB, 1025 * MIB),  # and none above it
        ("native", 513, 1024),
        ("paper", MIB, MIB),
        ("paper", MIB + 1, 2 * MIB),
        ("paper", 33 * MIB, 34 * MIB),
    ],
)
def test_rounding(spec: str, asked: int, got: int) -> None:
    bench = Bench(spec)
    bench.give(bench.take(4 * GIB))  # a free block that is always split
    bench.take(asked)
    assert bench.stat("requested_bytes") == asked
    assert bench.stat("allocated_bytes") == got


def test_a_list_is_one_value_among_others() -> None:
    spec = "caching:roundup_power2_divisions=[256:1,>:8],large_segment_size_mb=32"
    bench = Bench(spec)
    bench.take(2 * MIB)
    assert bench.reserved == 32 * MIB


def test_absurd_sizes_are_refused_and_change_nothing() -> None:
    for spec in RIVALS:
        bench = Bench(spec, capacity=GIB)
        with pytest.raises(InvalidArgument, match="9223372036854775808"):
            bench.allocator.allocate(1 << 63)
        assert bench.allocator.allocate(0) == 0
        assert bench.driver.physical_bytes == 0
