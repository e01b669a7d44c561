"""The memory history: events, stacks and snapshots over GMLake, in the form that PyTorch's viewer reads."""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

from gmlake.trace import read_trace
from gmlake.trace.formats import plain_pickle

from .conftest import Run

MIB = 1 << 20

SCRIPT = """
import json, sys, torch
MIB = 1 << 20
path = sys.argv[1]
before = torch.ones(2 * MIB, dtype=torch.uint8, device="cuda")
assert not torch._C._cuda_isHistoryEnabled()
torch.cuda.memory._record_memory_history(stacks=sys.argv[2])
assert torch._C._cuda_isHistoryEnabled()

def inner():
    return torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")

def outer():
    return inner()

kept = outer()
torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    torch.empty(700, dtype=torch.uint8, device="cuda")
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
x = torch.ones(1000, device="cuda", requires_grad=True)
(x * 2).sum().backward()
traceback = torch.cuda.memory._allocation_traceback(kept.untyped_storage().data_ptr())
unknown = torch.cuda.memory._allocation_traceback(before.untyped_storage().data_ptr())
torch.cuda.memory._dump_snapshot(path)
events = torch.cuda.memory._snapshot()["device_traces"][0]
def short(event):
    names = [frame["name"] for frame in event.get("frames", [])]
    return [event["action"], event["size"], event["stream"] != 0, event["pool_id"], names, sorted(event)]
told = [short(e) for e in events if e["action"] in ("alloc", "free_requested", "free_completed", "oom")]
torch.cuda.memory._record_memory_history(None)
assert not torch._C._cuda_isHistoryEnabled()
quiet = torch.cuda.memory._snapshot()["device_traces"][0]
print(json.dumps([told, [f["name"] for f in traceback], unknown, len(quiet)]))
"""


def told(run: Run, path: Path, stacks: str) -> Any:
    return run(SCRIPT, arguments=(path, stacks))


def test_the_same_events_as_pytorch(gmlake: Run, native: Run, tmp_path: Path) -> None:
    ours, theirs = told(gmlake, tmp_path / "ours", "python"), told(native, tmp_path / "theirs", "python")
    assert [event[:4] for event in ours[0]] == [event[:4] for event in theirs[0]]
    assert [event[4] for event in ours[0]] == [event[4] for event in theirs[0]]  # the names of Python's functions
    assert [event[5] for event in ours[0]] == [event[5] for event in theirs[0]]  # the keys
    assert ours[1:] == theirs[1:]
    assert ours[1] == ["inner", "outer", "<module>"]


def test_stacks_of_both_languages(gmlake: Run, tmp_path: Path) -> None:
    events, traceback, _, _ = told(gmlake, tmp_path / "ours", "all")
    inner = traceback.index("inner")
    assert traceback[inner : inner + 3] == ["inner", "outer", "<module>"]
    assert traceback[0] == "gmlake_torch_allocate"
    assert any("at::native::empty_cuda" in name for name in traceback[:inner])
    # Autograd's own thread has no Python, and still a stack.
    assert any("MulBackward0" in name for event in events for name in event[4])


def test_the_file_opens_in_the_viewer(gmlake: Run, native: Run, tmp_path: Path) -> None:
    """The viewer reads a few opcodes and plain types; gmlake reads the file too."""
    told(gmlake, tmp_path / "ours.pickle", "python")
    told(native, tmp_path / "theirs.pickle", "python")
    data = (tmp_path / "ours.pickle").read_bytes()
    known = {opcode.name for opcode, _, _ in pickletools.genops((tmp_path / "theirs.pickle").read_bytes())}
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= known | {"NEWFALSE", "NEWTRUE"}
    ours, theirs = plain_pickle.load(data), plain_pickle.load((tmp_path / "theirs.pickle").read_bytes())
    assert set(ours) == set(theirs)
    assert set(ours["allocator_settings"]) == set(theirs["allocator_settings"])
    assert set(ours["segments"][0]) == set(theirs["segments"][0])
    assert set(ours["segments"][0]["blocks"][0]) == set(theirs["segments"][0]["blocks"][0])
    frames = next(event["frames"] for event in ours["device_traces"][0] if event["action"] == "alloc")
    assert set(frames[0]) == {"filename", "line", "name"}
    trace = read_trace(tmp_path / "ours.pickle")
    assert sorted(trace.size[trace.size > MIB].tolist()) == [2 * MIB, 3 * MIB, 5 * MIB]


STITCHED = """
import json, torch
MIB = 1 << 20
torch.cuda.memory._record_memory_history(context=None)
for _ in range(3):
    blocks = [torch.empty(8 * MIB, dtype=torch.uint8, device="cuda") for _ in range(64)]
    del blocks[::2]
    large = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
    del blocks
    again = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
    del again
    snapshot = torch.cuda.memory._snapshot()
    segments, reserved = snapshot["segments"], torch.cuda.memory_reserved()
    assert sum(s["total_size"] for s in segments) == reserved, (sum(s["total_size"] for s in segments), reserved)
    spans = sorted((s["address"], s["address"] + s["total_size"]) for s in segments)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:]))
    active = [b["address"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated"]
    assert large.data_ptr() in active
    assert sum(s["allocated_size"] for s in segments) == torch.cuda.memory_allocated()
    assert sum(s["requested_size"] for s in segments) == torch.cuda.memory_stats()["requested_bytes.all.current"]
    for s in segments:
        at = s["address"]
        for b in s["blocks"]:
            assert b["address"] == at
            at += b["size"]
        assert at == s["address"] + s["total_size"]
    del large
from gmlake import stats
own = stats()["gmlake"]
events = snapshot["device_traces"][0]
print(json.dumps([own["stitches"] > 0, any(e["user_metadata"] == "stitched" for e in events)]))
"""


def test_stitched_memory_is_shown_once(gmlake: Run) -> None:
    assert gmlake(STITCHED, "--memory", "640MiB") == [True, True]


def test_limits_and_levels(gmlake: Run, native: Run) -> None:
    program = """
import json, torch
memory = torch.cuda.memory
def some(n):
    return [torch.empty(1000 + i, dtype=torch.uint8, device="cuda") for i in range(n)]
def events():
    return [[e["action"], e["size"], "frames" in e] for e in memory._snapshot()["device_traces"][0]
            if not e["action"].startswith(("seg", "snap"))]
found = []
torch.ones(1, device="cuda")
memory._record_memory_history(max_entries=10, context="alloc", stacks="python")
some(20)
found.append(events())
memory._record_memory_history(max_entries=10, context=None, clear_history=True)
some(2)
found.append(events())
memory._record_memory_history(context="all", stacks="python", skip_actions=["free_completed"])
some(1)
found.append(events())
memory._record_memory_history("state", stacks="python")
kept = some(1)
found.append(len(memory._snapshot()["device_traces"][0]))
blocks = [b for s in memory._snapshot()["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
found.append([[f["name"] for f in b["frames"]] for b in blocks if b["requested_size"] == 1000])
memory._record_memory_history(True, trace_alloc_max_entries=5)
found.append(torch._C._cuda_isHistoryEnabled())
memory._record_memory_history(False)
found.append(torch._C._cuda_isHistoryEnabled())
for wrong in (("some",), ("all", "much"), ("all", "all", "ruby")):
    try:
        memory._record_memory_history(*wrong)
        found.append("accepted")
    except RuntimeError:
        found.append("refused")
print(json.dumps(found))
"""
    ours, theirs = gmlake(program), native(program)
    assert ours[:3] == theirs[:3]
    assert ours[4:] == theirs[4:]
    assert len(ours[0]) == 10


WORDS = """
import json, threading, torch
memory = torch.cuda.memory
def some(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
def events():
    return [[e["action"], e["size"], e["stream"] != 0, e["user_metadata"], [f["name"] for f in e.get("frames", [])]]
            for e in memory._snapshot()["device_traces"][0] if not e["action"].startswith("segment")]
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    early = some(1500)
found = []
# The stack of a free is the allocation's where only allocations are asked for theirs.
for enabled, context in (("all", "alloc"), ("state", "alloc"), ("state", "all"), ("state", "state")):
    memory._record_memory_history(enabled, context=context, stacks="python", clear_history=True)
    some(3000)
    found.append(events())
# What came before the recording goes with all that is known of it; looking is an event too.
memory._record_memory_history(context="alloc", stacks="python", clear_history=True)
del early
found.append(events())
memory.memory_snapshot()
found.append(events())
# Words of the program's own.
found.append(memory._memory_metadata_supported())
memory._set_memory_metadata("forward")
kept = some(2000)
found.append(memory._get_memory_metadata())
other = threading.Thread(target=lambda: found.append([memory._get_memory_metadata(), some(10).numel()]))
other.start()
other.join()
memory._set_memory_metadata("")
def note():
    memory._annotate_tensor(kept[100:], "saved for later")
note()
del kept
with torch.cuda.stream(side):
    try:
        some(1 << 40)
    except torch.OutOfMemoryError:
        pass
found.append(events())
try:
    memory._record_memory_history(skip_actions=["nothing"])
except RuntimeError as error:
    found.append(str(error))
print(json.dumps(found))
"""


def test_the_same_words_as_pytorch(either: Run, native: Run) -> None:
    ours = either(WORDS)
    assert ours == native(WORDS)
    assert ["annotate", 2000, False, "saved for later", ["_annotate_tensor", "note", "<module>"]] in ours[-2]


OTHERS = """
import json, torch
memory = torch.cuda.memory
torch.ones(1, device="cuda")
found = []
def look():
    snapshot = memory._snapshot()
    found.append([[e["name"], e["stage"], e["device"]] for e in snapshot["external_annotations"]])
    found.append([[e["action"], e["size"], [f["name"] for f in e["frames"]]] for e in snapshot["host_traces"]])
    found.append(sorted([s["total_size"], s["allocated_size"]] for s in snapshot["host_segments"]))
    found.append([e["size"] for e in snapshot["device_traces"][0] if e["action"] == "alloc"])
def work():
    with torch.profiler.record_function("work"):
        return torch.empty(1000, pin_memory=True), torch.empty(500, dtype=torch.uint8, device="cuda")
work()
look()
every = {"stacks": "python", "clear_history": True}
memory._record_memory_history(record_pinned_host_memory=True, global_record_annotations=True, **every)
kept = work()
look()
memory._record_memory_history(None)
kept = work()
look()
memory._record_memory_history(record_pinned_host_memory=True, record_cuda=False, **every)
kept = work()
look()
found.append(torch._C._cuda_isHistoryEnabled())
print(json.dumps(found))
"""


def test_pinned_memory_and_annotations(bridge: None, gmlake: Run, native: Run) -> None:
    ours = gmlake(OTHERS)
    assert ours == native(OTHERS)
    assert ours[4] == [["work", "START", 0], ["work", "END", 0]]
    assert ours[5]


def test_the_profiler_sees_every_block(either: Run, native: Run) -> None:
    program = """
import json, torch
from torch._C._profiler import _EventType
from torch.profiler import profile, ProfilerActivity
torch.ones(1, device="cuda")
side = torch.cuda.Stream()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
    x = torch.empty(7 << 20, dtype=torch.uint8, device="cuda")
    y = torch.empty(1000, dtype=torch.uint8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(50):
            x.add_(1)
    x.record_stream(side)
    del x  # still used, but no longer allocated
found = []
def walk(events):
    for event in events:
        if event.tag == _EventType.Allocation and "cuda" in str(event.extra_fields.device):
            fields = event.extra_fields
            found.append([fields.alloc_size, fields.total_allocated, fields.ptr != 0, str(fields.device)])
        walk(event.children)
walk(run.profiler.kineto_results.experimental_event_tree())
print(json.dumps(sorted(found)))
"""
    ours = either(program, "--kernel-us", "1000")
    assert len(ours) >= 2
    assert ours == native(program, "--kernel-us", "1000")


EXCEPTIONS = """
import json, signal, sys, torch
torch.cuda.memory._record_memory_history()
caught = []

def sample(number):
    if number == 2:
        raise ValueError("a bad sample")
    return torch.empty(1000, device="cuda")

def deep(frames):
    return deep(frames - 1) if frames else torch.empty(1000, device="cuda")

for work in (
    lambda: [sample(number) for number in range(4)],
    lambda: torch.cat((sample(0), sample(1) * 2, sample(2))),
    lambda: [torch.empty(30 << 30, dtype=torch.uint8, device="cuda") for _ in range(4)],
    lambda: torch.cat([sample(0), torch.empty(100 << 30, dtype=torch.uint8, device="cuda")]),
):
    try:
        work()
    except (ValueError, torch.OutOfMemoryError) as error:
        caught.append([type(error).__name__, str(error)[:12]])

# Most of what this loop does is recording stacks, so that is where the signal arrives.
def late(*_):
    raise TimeoutError("a step took too long")

signal.signal(signal.SIGALRM, late)
for raised, number in ((TimeoutError, signal.SIGALRM), (KeyboardInterrupt, signal.SIGINT)) * 10:
    try:
        signal.signal(signal.SIGVTALRM, lambda *_, number=number: signal.raise_signal(number))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
        while True:
            sample(0)
    except raised as error:
        caught.append([type(error).__name__, str(error)])

room = sys.getrecursionlimit()
for frames in range(room - 60, room):
    try:
        deep(frames)
    except RecursionError:
        break
print(json.dumps([caught, torch.cuda.memory_allocated()]))
"""


def test_exceptions_pass_while_stacks_are_recorded(either: Run, native: Run) -> None:
    caught, allocated = either(EXCEPTIONS)
    assert [caught, allocated] == native(EXCEPTIONS)
    assert caught[:4] == [["ValueError", "a bad sample"]] * 2 + [["OutOfMemoryError", "CUDA out of "]] * 2
    assert caught[4:] == [["TimeoutError", "a step took too long"], ["KeyboardInterrupt", ""]] * 10
    assert allocated == 0


def test_snapshots_while_other_threads_allocate(either: Run) -> None:
    """Stacks are forgotten in the midst of a snapshot, but none that it shows."""
    program = """
import json, threading, torch
from gmlake.torch import history
history._FEWEST = history._recorder._prune_at = 4000
memory = torch.cuda.memory
memory._record_memory_history(max_entries=6000, stacks="python")
kept = torch.empty(1, device="cuda")
ended, failed = threading.Event(), []

def allocate():
    while not ended.is_set():
        torch.empty(100, device="cuda")

def look():
    try:
        for _ in range(8):
            events = memory._snapshot()["device_traces"][0]
            bare.append(sum(not event.get("frames") for event in events if event["action"] != "snapshot"))
            held.append([f["name"] for f in memory._snapshot()["segments"][0]["blocks"][0]["frames"]])
    except KeyError as error:
        failed.append(repr(error))

bare, held = [], []
workers = [threading.Thread(target=allocate) for _ in range(2)]
lookers = [threading.Thread(target=look) for _ in range(2)]
for thread in workers + lookers:
    thread.start()
for thread in lookers:
    thread.join()
ended.set()
for thread in workers:
    thread.join()
for _ in range(10000):
    torch.empty(100, device="cuda")
print(json.dumps([failed, max(bare, default=0), len(held), [names for names in held if "<module>" not in names],
                  len(history._recorder._stacks)]))
"""
    failed, bare, looked, nameless, stacks = either(program)
    assert failed == nameless == []
    assert (bare, looked) == (0, 16)
    assert 4000 <= stacks <= 20000
