"""Every request to the driver: nothing is cached, nothing is shared."""

from __future__ import annotations

import pytest

from gmlake.errors import OutOfMemory

from .bench import MIB, Bench


def test_every_request_is_one_call() -> None:
    bench = Bench("native")
    for _ in range(3):
        bench.give(bench.take(1000))
    assert (bench.calls("allocate"), bench.calls("free")) == (3, 3)
    assert bench.stat("reserved_bytes", what="peak") == 1024
    assert bench.driver.physical_bytes == 0


def test_pools_by_size_only_in_the_statistics() -> None:
    bench = Bench("native")
    bench.take(MIB)
    bench.take(MIB + 1)
    assert bench.stat("allocation", "small_pool") == bench.stat("allocation", "large_pool") == 1


def test_out_of_memory_leaves_the_rest_alone() -> None:
    bench = Bench("native", capacity=10 * MIB)
    kept = bench.take(6 * MIB)
    with pytest.raises(OutOfMemory, match=r"5\.00 MiB"):
        bench.take(5 * MIB)
    assert bench.count("num_ooms") == 1
    assert bench.segment_of(kept).size == 6 * MIB


def test_a_recorded_stream_needs_no_event_because_freeing_waits() -> None:
    bench = Bench("native")
    address = bench.take(MIB)
    bench.allocator.record_stream(address, 3)
    bench.give(address)
    assert bench.calls("create_event") == 0
