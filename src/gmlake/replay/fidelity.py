"""Does the caching rival decide as PyTorch did? A recorded history is continued from where it began.

The state at the beginning is rebuilt from the segments at the end and the events. Then every recorded request
is made again, and every recorded segment's address is handed out by the simulated driver: the rival must ask
for a segment exactly where the history has one, and put every allocation at the recorded address. Where it
does not, it is put right, so that one difference is not counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gmlake._core import Allocator, InvalidArgument, SimulatedDriver, adopt, give_back, make_allocator, place
from gmlake.replay.initial_state import Event, Segment, initial_segments, kind_of_segment
from gmlake.trace import TraceError, read_snapshot
from gmlake.trace.formats.snapshot_write import CONVERTED

_MIB = 1 << 20
_TIES = "address", "registration"


@dataclass(frozen=True)
class Difference:
    """One decision that was not the recorded one."""

    event: int  # its index in the history
    what: str


@dataclass
class Fidelity:
    """How much of a history was reproduced."""

    events: int = 0
    allocations: int = 0
    allocations_at_address: int = 0
    segment_events: int = 0
    segment_events_reproduced: int = 0
    unrecorded_segment_events: int = 0  # the rival asked for or gave back a segment, and PyTorch did not
    differences: list[Difference] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Every decision was the recorded one."""
        return not self.differences


class _Run:
    """The rival at work on one history."""

    def __init__(self, spec: str, segments: Sequence[Segment]) -> None:
        self.driver = SimulatedDriver(cost_table="free")
        self.allocator: Allocator = make_allocator(spec, self.driver)
        self.report = Fidelity()
        self.elsewhere: dict[int, int] = {}  # recorded address -> ours, where it could not be put right
        self.driver.hand_out([segment.address for segment in segments])
        for segment in segments:
            adopt(self.allocator, segment.address, segment.stream, segment.kind, segment.blocks())

    def allocate(self, index: int, event: Event, grown: Event | None) -> None:
        """One allocation, for which PyTorch got the segment `grown` or none."""
        size, stream, wanted = event["size"], event["stream"], event["addr"]
        self.report.allocations += 1
        if grown is not None:
            self.driver.hand_out([grown["addr"]])
        before = self._driver_allocations()
        address = self.allocator.allocate(size, stream)
        grew = self._driver_allocations() > before
        if grew == (grown is not None) and address == wanted:
            self.report.allocations_at_address += 1
            self.report.segment_events_reproduced += grew
            return
        self.allocator.release(address)
        if grew and grown is None:
            self.report.unrecorded_segment_events += 1
            self._differ(index, f"{size} bytes: a new segment, not {wanted:#x}")
            give_back(self.allocator, address)
        elif grown is not None and not grew:
            self._differ(index, f"{size} bytes: at {address:#x}, not in a new segment of {grown['size']}")
            self._take_over(grown)
        elif grown is not None:
            self.report.segment_events_reproduced += 1
            self._differ(index, f"{size} bytes: at {address:#x} of a new segment, not {wanted:#x}")
        else:
            self._differ(index, f"{size} bytes: at {address:#x}, not {wanted:#x}")
        if not place(self.allocator, wanted, size, stream):
            self.elsewhere[wanted] = self.allocator.allocate(size, stream)

    def free(self, event: Event) -> None:
        """One block is free; before, other streams may have used it."""
        self.allocator.release(self.elsewhere.pop(event["addr"], event["addr"]))

    def trim(self, index: int, recorded: Sequence[Event]) -> None:
        """PyTorch gave segments back, which it does with all that it can."""
        before = self._segments()
        self.allocator.trim()
        gone = before - self._segments()
        wanted = {event["addr"] for event in recorded}
        self.report.segment_events_reproduced += len(gone & wanted)
        self.report.unrecorded_segment_events += len(gone - wanted)
        if gone != wanted:
            self._differ(index, f"{len(wanted - gone)} segments kept too many, {len(gone - wanted)} too few")

    def _take_over(self, segment: Event) -> None:
        kind = kind_of_segment(segment["size"])
        adopt(self.allocator, segment["addr"], segment["stream"], kind, [(segment["size"], 0, False)])

    def _differ(self, event: int, what: str) -> None:
        self.report.differences.append(Difference(event, what))

    def _segments(self) -> set[int]:
        return {segment.address for segment in self.allocator.segments()}

    def _driver_allocations(self) -> int:
        return self.driver.counts()["allocate"][0]


def spec_of(settings: Mapping[str, Any], ties: str) -> str:
    """The caching rival with the settings that a snapshot was recorded with."""
    options = [f"ties={ties}"]
    if settings.get("max_split_size", -1) > 0:
        options.append(f"max_split_size_mb={settings['max_split_size'] // _MIB}")
    divisions: Mapping[str, int] = settings.get("roundup_power2_divisions", {})
    if any(divisions.values()):
        pairs = ",".join(f"{size}:{count}" for size, count in divisions.items())
        options.append(f"roundup_power2_divisions=[{pairs}]")
    return "caching:" + ",".join(options)


def run(spec: str, segments: Sequence[Segment], events: Sequence[Event]) -> Fidelity:
    """Continue a history from its initial segments."""
    work = _Run(spec, segments)
    grown: Event | None = None
    freed: list[Event] = []
    for index, event in enumerate(events):
        action = event["action"]
        if action != "segment_free" and freed:
            work.trim(index, freed)
            freed = []
        if action == "segment_alloc":
            work.report.segment_events += 1
            grown = event
        elif action == "segment_free":
            work.report.segment_events += 1
            freed.append(event)
        elif action == "alloc":
            work.allocate(index, event, grown)
            grown = None
        elif action == "free_completed":
            work.free(event)
    if freed:
        work.trim(len(events), freed)
    work.allocator.check()
    work.report.events = len(events)
    return work.report


def check_snapshot(snapshot: Mapping[str, Any], device: int = 0, ties: str | None = None) -> Fidelity:
    """How much of a snapshot's history the caching rival reproduces.

    A snapshot does not tell which PyTorch wrote it, and so not how ties were decided: without `ties`, both
    ways are tried and the better one is reported.
    """
    events = snapshot["device_traces"][device]
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
    settings = snapshot.get("allocator_settings", {})
    if settings.get("expandable_segments") or any(segment.get("is_expandable") for segment in segments):
        raise InvalidArgument("the history has expandable segments; it must be one of PyTorch's default allocator")
    initial = initial_segments(segments, events)
    reports = [run(spec_of(settings, way), initial, events) for way in ([ties] if ties else _TIES)]
    return min(reports, key=lambda report: len(report.differences))


def check_history(source: str | Path, device: int | None = None) -> Fidelity:
    """The same for a file, in which anything may be missing or wrong."""
    snapshot, device = read_snapshot(source, device=device)
    if snapshot.get(CONVERTED):
        raise TraceError(f"{source}: has addresses that gmlake convert chose; take the snapshot that PyTorch wrote")
    try:
        return check_snapshot(snapshot, device)
    except InvalidArgument as error:
        raise TraceError(f"{source}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"{source}: has events or segments that PyTorch would not write ({error!r})") from error
