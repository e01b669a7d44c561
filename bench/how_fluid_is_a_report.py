"""A report of a million events in a real browser: how long until it is drawn, and how fast are frames while it moves?

The trace is a bundled one, continued until it has a million events. Chromium runs without a window and without a
GPU, so that all drawing is done by the processor.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.answer import Answer, Table, Target
from gmlake import report
from gmlake.trace import Kind, Trace, read_trace
from tests.report.browser import Browser, find_chromium

QUESTION = "How soon is a report of a million events drawn, and how fluid is it?"
EVENTS = 1_000_000
SECONDS = 4  # of moving, for each way to look at it; the first half second is not counted
WAYS = {
    "panning, a tenth of the trace": (0.1, "view.pan(direction * 0.01)"),
    "panning, one iteration": (0.025, "view.pan(direction * 0.02)"),
    "zooming between a tenth and all": (0.1, "view.zoom(direction > 0 ? 1.04 : 1 / 1.04)"),
}
MOVE = """new Promise(done => {
  const {view} = gmlakeReport, frames = [], work = [];
  view.set(0.3 * view.events, (0.3 + SPAN) * view.events);
  let last = performance.now(), begin = last, direction = 1;
  view.listeners.unshift(() => view.began = performance.now());
  view.listeners.push(() => work.push(performance.now() - view.began));
  const step = now => {
    if (now - begin > 500) frames.push(now - last);
    last = now;
    direction = Math.floor((now - begin) / 1000) % 2 ? -1 : 1;
    if (now - begin > SECONDS * 1000) {
      view.listeners.shift(), view.listeners.pop();
      return done([frames, work]);
    }
    ACT;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def answer(quick: bool) -> Answer:
    """Write, open, move."""
    result = Answer(QUESTION)
    if find_chromium() is None:
        result.notes = ["Chromium is not installed: nothing was measured."]
        return result
    trace = continued(read_trace("demo"), EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        began = time.perf_counter()
        report.write([trace], page)
        written = time.perf_counter() - began
        opened, frames = look(page, 2 if quick else SECONDS, 1 if quick else 3)
        size = page.stat().st_size / 2**20
    facts = Table("The report", ("events", "MiB", "s to replay and write", "s to open"))
    facts.rows.append((len(trace), size, written, statistics.median(opened)))
    columns = ("while", "frames", "ms a frame, median", "95 % below", "frames a second", "ms of drawing, median")
    moves = Table("Frames", columns)
    for way, (times, work) in frames.items():
        slow = float(np.percentile(times, 95))
        rate = 1000 / statistics.mean(times)
        moves.rows.append((way, len(times), statistics.median(times), slow, rate, statistics.median(work)))
        result.targets.append(Target(f"{way}: frames a second", rate, at_least=30))
    result.tables = [facts, moves]
    result.targets.insert(0, Target("seconds to open", statistics.median(opened), at_most=3))
    return result


def look(page: Path, seconds: int, openings: int) -> tuple[list[float], dict[str, tuple[list[float], list[float]]]]:
    """Seconds to open, and per way to move the milliseconds of every frame and of its drawing."""
    with Browser(1280, 900) as browser:
        opened = []
        for _ in range(openings):
            began = time.perf_counter()
            browser.open(page)
            opened.append(time.perf_counter() - began)
        frames = {}
        for way, (span, act) in WAYS.items():
            script = MOVE.replace("SPAN", str(span)).replace("SECONDS", str(seconds)).replace("ACT", act)
            times, work = browser.evaluate(script)
            frames[way] = times, work
    return opened, frames


def continued(trace: Trace, events: int) -> Trace:
    """The trace, its iterations repeated from the first mark on, cut at so many events; what is live goes on living."""
    first = int(trace.marks[0])
    made_before = int(np.count_nonzero(trace.kind[:first] == Kind.ALLOCATE))
    inside = np.isin(trace.id, trace.id[first:][trace.kind[first:] == Kind.ALLOCATE])
    about = np.isin(trace.kind, (Kind.ALLOCATE, Kind.FREE, Kind.RECORD_STREAM))
    freed = np.unique(trace.id[trace.kind == Kind.FREE])
    # Only what an iteration both makes and frees can be repeated.
    whole = about & inside & (trace.id >= made_before) & np.isin(trace.id, freed)
    rows = np.flatnonzero(whole | (trace.kind == Kind.ITERATION))
    rows = rows[rows >= first]
    parts, ids, offset = [np.arange(len(trace))], [trace.id.astype(np.int64)], trace.allocations
    again = trace.id[rows].astype(np.int64)
    made = rows[trace.kind[rows] == Kind.ALLOCATE]
    number = np.zeros(trace.allocations, dtype=np.int64)
    number[trace.id[made]] = np.arange(len(made))
    marks = trace.kind[rows] == Kind.ITERATION
    iterations = len(trace.marks)
    while sum(map(len, parts)) < events:
        ids.append(np.where(marks, again + iterations, number[np.where(marks, 0, again)] + offset))
        parts.append(rows)
        offset += len(made)
        iterations += len(trace.marks)
    chosen = np.concatenate(parts)[:events]
    longer = trace.select(chosen)
    return replace(longer, id=np.concatenate(ids)[:events].astype(np.uint32), name=f"{trace.name}, continued")
