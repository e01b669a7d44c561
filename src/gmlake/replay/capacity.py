"""The smallest capacity on which a trace completes.

Running out of memory is not monotone in capacity: an allocator may fail on 40 GiB and complete on 39, because
a retry that empties its cache comes at a better moment. So capacities are scanned upwards and the first that
completes wins:

1. Start at the lower bound, the trace's peak active bytes: less can never do.
2. Step by 0.1 % of it up to +2 %, by 0.5 % up to +10 %, by 2 % up to +60 %, then each 5 % above the last.
   All candidates are whole multiples of the driver's granularity.
3. Between the last failure and the first success, halve until they are at most 0.05 % apart (or one granule).
4. Probe four larger capacities, up to +10 %, and report those that fail.

What the rule cannot see is a success hidden between two neighbouring failures of step 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

GRANULE = 2 << 20
TIERS = ((0.001, 0.02), (0.005, 0.10), (0.02, 0.60))  # (step, up to), as shares of the lower bound
GROWTH = 1.05  # beyond the last tier
RESOLUTION = 0.0005
PROBES = (1.01, 1.02, 1.05, 1.10)
GIVE_UP = 1024  # times the lower bound


@dataclass(frozen=True)
class Smallest:
    """The smallest capacity that completes, and the larger ones tried afterwards that do not."""

    capacity: int
    fails_above: tuple[int, ...]


def smallest_capacity(completes: Callable[[int], bool], lower: int, granule: int = GRANULE) -> Smallest | None:
    """Search by the rule above; None if nothing up to 1024 times `lower` completes."""
    failed: int | None = None
    for capacity in candidates(lower, granule):
        if completes(capacity):
            found = capacity if failed is None else _refine(completes, failed, capacity, lower, granule)
            probes = dict.fromkeys(_round_up(found * factor, granule) for factor in PROBES)
            return Smallest(found, tuple(c for c in probes if c > found and not completes(c)))
        failed = capacity
    return None


def candidates(lower: int, granule: int = GRANULE) -> Iterator[int]:
    """The capacities to try, ascending and without repetition."""
    previous = 0
    for wanted in _ladder(max(lower, 1)):
        capacity = _round_up(wanted, granule)
        if capacity > previous:
            yield capacity
            previous = capacity


def _ladder(lower: int) -> Iterator[float]:
    yield lower
    share = 0.0
    for step, up_to in TIERS:
        while share + step <= up_to * 1.000001:
            share += step
            yield lower * (1 + share)
    wanted = lower * (1 + share)
    while wanted < lower * GIVE_UP:
        wanted *= GROWTH
        yield wanted


def _refine(completes: Callable[[int], bool], failed: int, succeeded: int, lower: int, granule: int) -> int:
    while succeeded - failed > max(granule, lower * RESOLUTION):
        middle = _round_up((failed + succeeded) / 2, granule)
        if middle >= succeeded:
            break
        if completes(middle):
            succeeded = middle
        else:
            failed = middle
    return succeeded


def _round_up(value: float, granule: int) -> int:
    return -(-math.ceil(value) // granule) * granule
