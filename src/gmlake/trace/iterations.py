"""Where iterations start, found from the trace itself when nobody recorded it.

Training repeats itself. Two facts of an event do not change when the lengths of the sequences do: whether it
allocates or frees and on which stream, and how many events lie between an allocation and its free. Their
sequence is hashed in short windows; a window that comes back once in every iteration is an *anchor*. Anchors
that agree on a period form a chorus; iterations start at the one where memory is quiet for the last time
before it rises, because between two steps activations and gradients are gone. Sizes decide nothing but that.
A trace without a convincing chorus gets no marks: it is one iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gmlake.trace.building import insert_marks
from gmlake.trace.trace import I64, U64, Kind, Trace

_WINDOW = 24  # events; long enough to be unlike its neighbours, short enough to survive small differences
_EVEN = 1.4  # the longest distance between two occurrences of an anchor over the shortest
_FIRST = 2.5  # the first distance over the one in the middle
_COVERED = 0.5  # of the trace, by the span from the first anchor to one period after the last
_SOLO = 0.2  # of the largest chorus; a smaller one is chance
_ENOUGH = 3  # repetitions that convince by themselves; two must fill nearly the whole trace
_NEARLY_ALL = 0.8
_SAME = 1.3  # periods up to so many times as long are taken for the same
_LEVEL = 0.05  # of the memory that comes and goes in an iteration; more than that is a trend
_QUIET = 0.01  # of the way from the least to the most live memory
# The longest life that counts, and the share of all windows that the chorus must have. Whole lives tell
# layers apart, so many windows are anchors; if steps differ in their number of events, only short lives stay
# the same, and anchors are few.
_PASSES = ((1 << 40, 0.15), (_WINDOW, 0.03))


@dataclass(frozen=True)
class _Anchors:
    """Windows with an even distance between their occurrences, one entry each."""

    first: I64  # where the occurrences of the window begin in the sorted list
    count: I64
    period: I64  # the distance in the middle of the trace

    def only(self, which: npt.NDArray[np.bool_]) -> _Anchors:
        return _Anchors(self.first[which], self.count[which], self.period[which])


def mark_iterations(trace: Trace) -> Trace:
    """The trace with iteration marks: its own if it has some, else those found, else none."""
    if len(trace.marks):
        return trace
    starts = find_iterations(trace)
    return insert_marks(trace, starts, "periodicity") if len(starts) else trace


def find_iterations(trace: Trace) -> I64:
    """Event indices at which iterations start; empty if the trace does not repeat itself."""
    events = np.flatnonzero((trace.kind == Kind.ALLOCATE) | (trace.kind == Kind.FREE))
    events = events[events >= trace.initial]
    if len(events) >= 3 * _WINDOW:
        live = trace.live_bytes()[events]
        tokens, lives = _tokens(trace, events)
        for longest, chorus in _PASSES:
            known = np.where(lives <= longest, lives, 0).astype(np.uint64)
            starts = _find(tokens + (known << np.uint64(12)), live, chorus)
            if starts is not None:
                return events[starts]
    return np.empty(0, dtype=np.int64)


def _find(tokens: U64, live: I64, chorus: float) -> I64 | None:
    hashes = _window_hashes(tokens)
    order = np.argsort(hashes, kind="stable")
    anchors = _even_anchors(hashes[order], order)
    period = _common_period(anchors, chorus * len(hashes))
    if period is None:
        return None
    anchors = anchors.only((anchors.period * _SAME >= period) & (anchors.period <= period * _SAME))
    chosen = _last_quiet(anchors, order, live, period)
    starts = _complete(anchors, chosen, order, period)
    return starts if _returns(live, starts) else None


def _tokens(trace: Trace, events: I64) -> tuple[U64, I64]:
    """Per event a number for its kind and stream, and how many events its allocation lives, 0 if for ever."""
    kind, ids = trace.kind[events], trace.id[events]
    place = np.arange(len(events))
    made = np.full(trace.allocations, -1, dtype=np.int64)
    gone = np.full(trace.allocations, -1, dtype=np.int64)
    made[ids[kind == Kind.ALLOCATE]] = place[kind == Kind.ALLOCATE]
    gone[ids[kind == Kind.FREE]] = place[kind == Kind.FREE]
    lives = np.where((made >= 0) & (gone >= 0), gone - made, 0)[ids]
    return ((trace.stream[events] & 0x7FF) << 1 | kind).astype(np.uint64), lives


def _window_hashes(tokens: U64) -> U64:
    """A hash of every window: a polynomial in well-mixed tokens, modulo 2**64."""
    with np.errstate(over="ignore"):
        mixed = (tokens + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        hashes = np.zeros(len(tokens) - _WINDOW + 1, dtype=np.uint64)
        for offset in range(_WINDOW):
            hashes = hashes * np.uint64(0xD1342543DE82EF95) + mixed[offset : offset + len(hashes)]
    return hashes


def _even_anchors(sorted_hashes: U64, order: I64) -> _Anchors:
    """Windows that come back at even distances and reach over most of the trace."""
    first = np.flatnonzero(np.concatenate(([True], sorted_hashes[1:] != sorted_hashes[:-1])))
    count = np.diff(np.append(first, len(order)))
    first, count = first[count > 1], count[count > 1]
    if not len(first):
        return _Anchors(first, count, count)
    last = first + count - 1
    distance = np.append(np.diff(order), 0)  # to the next occurrence; meaningless at the last one
    # The first of many distances may be longer: the first iteration prepares what later ones find.
    inner = first + (count > _ENOUGH)
    bounds = np.stack([inner, last], axis=1).ravel()
    longest, shortest = (extreme.reduceat(distance, bounds)[::2] for extreme in (np.maximum, np.minimum))
    middle = distance[first + (count - 1) // 2]
    even = (longest <= _EVEN * shortest) & (distance[first] <= _FIRST * middle)
    covered = (order[last] - order[first] + middle) / len(order)
    even &= covered >= np.where(count >= _ENOUGH, _COVERED, _NEARLY_ALL)
    return _Anchors(first[even], count[even], middle[even])


def _common_period(anchors: _Anchors, needed: float) -> int | None:
    """The longest period on which a chorus of anchors agrees, weighed by how often they occur."""
    if not len(anchors.period):
        return None
    periods, member = np.unique(anchors.period, return_inverse=True)
    voices = np.bincount(member, weights=anchors.count)
    until = np.searchsorted(periods, periods * _SAME, side="right")
    total = np.concatenate(([0.0], np.cumsum(voices)))
    chorus = total[until] - total[: len(periods)]
    enough = np.flatnonzero((chorus >= max(needed, _SOLO * chorus.max())) & (periods >= _WINDOW))
    if not len(enough):
        return None
    singers = slice(enough[-1], until[enough[-1]])
    return int(periods[singers][np.argmax(voices[singers])])


def _last_quiet(anchors: _Anchors, order: I64, live: I64, period: int) -> int:
    """The last anchor at which memory is quiet before the longest loud stretch of the period."""
    steady = _steady(anchors, order)
    before = live[np.maximum(steady - 1, 0)]
    quiet = np.flatnonzero(before <= before.min() + _QUIET * (before.max() - before.min()))
    phase = steady[quiet] % period
    around = np.argsort(phase)
    loud = np.diff(np.append(phase[around], phase[around[0]] + period))
    return int(quiet[around[np.argmax(loud)]])


def _steady(anchors: _Anchors, order: I64) -> I64:
    """An occurrence of every anchor from the middle of the trace, where iterations differ least."""
    steady: I64 = order[anchors.first + anchors.count // 2]
    return steady


def _returns(live: I64, starts: I64) -> bool:
    """Does an iteration give back what it takes? The layers of one step repeat too, but climb or descend."""
    at_start = live[np.maximum(starts - 1, 0)]
    spans = [extreme.reduceat(live, starts)[:-1] for extreme in (np.maximum, np.minimum)]
    drift, swing = np.abs(np.diff(at_start)), spans[0] - spans[1]
    return bool(len(starts) > 1 and np.median(drift) <= _LEVEL * np.median(swing))


def _complete(anchors: _Anchors, chosen: int, order: I64, period: int) -> I64:
    """Where the chosen anchor occurs, or would if its window were not disturbed in some iteration.

    What lives across a boundary makes the first and last iterations look different just there. The nearest
    anchor with the most occurrences stands in, at the distance that the two keep in the middle of the trace.
    """
    steady = _steady(anchors, order)
    distance = (steady[chosen] - steady + period // 2) % period - period // 2
    near = np.flatnonzero(np.abs(distance) <= period // 4)
    stand_in = near[np.lexsort((np.abs(distance[near]), -anchors.count[near]))[0]]
    if anchors.count[stand_in] <= anchors.count[chosen]:
        stand_in = np.int64(chosen)
    first = anchors.first[stand_in]
    starts: I64 = np.sort(order[first : first + anchors.count[stand_in]]) + distance[stand_in]
    inside: I64 = starts[(starts >= 0) & (starts < len(order))]
    return inside
