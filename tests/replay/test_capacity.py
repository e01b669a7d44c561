"""The capacity scan against predicates whose smallest capacity is known."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gmlake.replay.capacity import GRANULE, candidates, smallest_capacity

GIB = 2**30
LOWER = 50 * GIB


def test_candidates_ascend_from_the_lower_bound_in_granules() -> None:
    tried = list(candidates(LOWER))
    assert tried[0] == LOWER
    assert all(a < b for a, b in pairwise(tried))
    assert all(capacity % GRANULE == 0 for capacity in tried)
    near = [capacity for capacity in tried if capacity <= 1.02 * LOWER]
    assert all(b - a <= 0.001 * LOWER + GRANULE for a, b in pairwise(near))


def test_lower_bound_is_rounded_up_to_a_granule() -> None:
    assert next(candidates(GRANULE + 1)) == 2 * GRANULE


@pytest.mark.parametrize("share", [1.0, 1.0003, 1.013, 1.074, 1.31, 2.5, 40.0])
def test_finds_a_monotone_limit_within_the_resolution(share: float) -> None:
    limit = share * LOWER
    found = smallest_capacity(lambda capacity: capacity >= limit, LOWER)
    assert found is not None
    assert limit <= found.capacity <= limit + max(GRANULE, 0.0006 * LOWER)
    assert found.fails_above == ()


def test_takes_the_lower_island_and_reports_the_failures_above_it() -> None:
    def completes(capacity: int) -> bool:
        return 1.03 <= capacity / LOWER < 1.045 or capacity / LOWER >= 1.12

    found = smallest_capacity(completes, LOWER)
    assert found is not None
    assert 1.03 <= found.capacity / LOWER <= 1.0306
    assert found.fails_above
    assert all(not completes(capacity) for capacity in found.fails_above)


def test_small_traces_are_searched_granule_by_granule() -> None:
    found = smallest_capacity(lambda capacity: capacity >= 7 * GRANULE, 5 * GRANULE)
    assert found is not None
    assert found.capacity == 7 * GRANULE


def test_gives_up_when_nothing_completes() -> None:
    tried: list[int] = []

    def never(capacity: int) -> bool:
        tried.append(capacity)
        return False

    assert smallest_capacity(never, LOWER) is None
    assert tried[-1] > 1000 * LOWER
    assert len(tried) < 300
