"""The allocator interface as Python sees it; what an allocator does is tested elsewhere."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from gmlake._core import SimulatedDriver, catalogue, make_allocator
from gmlake.errors import Error, InvalidArgument, OutOfMemory

MIB = 1 << 20
ARRAYS = {
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
}
COUNTERS = {
    "num_alloc_retries",
    "num_ooms",
    "num_oom_rejections",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
    "max_split_size",
}


def test_statistics_are_nested_as_in_pytorch() -> None:
    allocator = make_allocator("native", SimulatedDriver())
    address = allocator.allocate(3 * MIB)
    statistics = allocator.statistics()
    others = {"oversize_allocations", "oversize_segments", "reserved_bytes_by_private_pools", "gmlake"}
    assert set(statistics) == ARRAYS | COUNTERS | others
    for name in ARRAYS:
        assert set(statistics[name]) == {"all", "small_pool", "large_pool"}
        for pool in statistics[name].values():
            assert set(pool) == {"current", "peak", "allocated", "freed"}
    assert all(isinstance(statistics[name], int) for name in COUNTERS)
    assert statistics["requested_bytes"]["all"]["current"] == 3 * MIB
    allocator.release(address)
    after = allocator.statistics()["requested_bytes"]["all"]
    assert after == {"current": 0, "peak": 3 * MIB, "allocated": 3 * MIB, "freed": 3 * MIB}
    allocator.reset_peaks()
    allocator.reset_accumulated()
    zeroes = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    assert allocator.statistics()["requested_bytes"]["all"] == zeroes


def test_segments_are_plain_to_read() -> None:
    allocator = make_allocator("caching", SimulatedDriver())
    address = allocator.allocate(5 * MIB, stream=7)
    (segment,) = allocator.segments()
    assert (segment.address, segment.size, segment.stream) == (address, 20 * MIB, 7)
    assert (segment.kind, segment.pool, segment.expandable, segment.stitched) == (
        "large",
        (0, 0),
        False,
        False,
    )
    blocks = [(block.address, block.size, block.requested, block.state) for block in segment.blocks]
    assert blocks == [
        (address, 5 * MIB, 5 * MIB, "active_allocated"),
        (address + 5 * MIB, 15 * MIB, 0, "inactive"),
    ]


def test_a_pool_serves_the_streams_it_was_given() -> None:
    allocator = make_allocator("caching", SimulatedDriver())
    allocator.begin_pool((0, 5), {1})
    inside, outside = allocator.allocate(4 * MIB, 1), allocator.allocate(4 * MIB, 2)
    allocator.end_pool((0, 5))
    pools = {block.address: s.pool for s in allocator.segments() for block in s.blocks if block.state != "inactive"}
    assert pools == {inside: (0, 5), outside: (0, 0)}
    allocator.release_pool((0, 5))


def test_an_allocator_keeps_its_driver() -> None:
    driver = SimulatedDriver()
    allocator = make_allocator("native", driver)
    address = allocator.allocate(MIB)
    del driver
    gc.collect()
    allocator.release(address)
    allocator.check()


def test_everything_goes_back_when_an_allocator_goes() -> None:
    driver = SimulatedDriver()
    allocator = make_allocator("caching", driver)
    allocator.allocate(3 * MIB)
    assert driver.physical_bytes > 0
    del allocator
    gc.collect()
    assert driver.physical_bytes == 0


def test_mistakes_name_the_value() -> None:
    allocator = make_allocator("caching", SimulatedDriver(capacity=8 * MIB))
    with pytest.raises(InvalidArgument, match="-3 is no size"):
        allocator.allocate(-3)
    with pytest.raises(InvalidArgument, match="-1 is no stream"):
        allocator.allocate(512, -1)
    with pytest.raises(InvalidArgument, match="0x3039"):
        allocator.release(0x3039)
    with pytest.raises(InvalidArgument, match="nonsense"):
        make_allocator("nonsense", SimulatedDriver())
    with pytest.raises(InvalidArgument, match="unknown option 'colour'"):
        make_allocator("caching:colour=red", SimulatedDriver())


def test_errors_are_what_a_python_reader_expects() -> None:
    allocator = make_allocator("caching", SimulatedDriver(capacity=32 * MIB))
    with pytest.raises(MemoryError) as caught:
        allocator.allocate(100 * MIB)
    assert isinstance(caught.value, OutOfMemory)
    assert isinstance(caught.value, Error)
    assert allocator.allocate(2 * MIB) != 0


def test_the_catalogue_describes_every_option() -> None:
    rows = catalogue()
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    for row in rows:
        assert row.meaning
        for option in row.options:
            assert option.kind in {"bytes", "real", "integer", "boolean", "text"}
            assert option.meaning
            make_allocator(f"{row.name}:{option.name}={option.fallback}", SimulatedDriver())


def test_a_device_that_could_not_be_begun_is_not_in_use() -> None:
    program = """
from gmlake import _core, errors
try:
    _core.process_allocator(63)
except (errors.Error, errors.InvalidArgument) as error:
    print(type(error).__name__, _core.used_devices())
_core.set_process_option("target", "0.9")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" []\n")
