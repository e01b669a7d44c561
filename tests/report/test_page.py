"""Reports in a real browser: what is shown is what was computed, and nothing that a trace says becomes markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmlake import report
from gmlake.report import Subject, figures
from gmlake.trace import Trace, read_trace
from gmlake.trace.excerpt import keep_iterations

from .browser import Browser
from .conftest import HOSTILE, ODD

GIB = 2**30


def text(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


def rows(browser: Browser, selector: str) -> list[list[str]]:
    script = f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})]"
    return list(browser.evaluate(f"{script}.map(row => [...row.cells].map(cell => cell.innerText.trim()))"))


def box(browser: Browser, selector: str) -> dict[str, float]:
    script = f"document.querySelector({json.dumps(selector)})"
    browser.evaluate(f"{script}.scrollIntoView({{block: 'center'}})")
    browser.settle()
    found: dict[str, float] = browser.evaluate(f"{script}.getBoundingClientRect().toJSON()")
    return found


def shown(value: float) -> str:
    """Bytes as the page writes them."""
    unit = 0
    while value >= 1024 and unit < 5:
        value, unit = value / 1024, unit + 1
    digits = 0 if value == int(value) else 1 if value >= 100 else 2
    return f"{value:.{digits}f} {['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}"


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser


def test_opens_quietly_and_fetches_nothing(opened: Browser, page: Path) -> None:
    assert opened.complaints == []
    assert opened.requests == [page.resolve().as_uri()]


def test_columns_arrive_intact(opened: Browser, snapshot: Trace, subject: Subject) -> None:
    blocks = figures.blocks_of(snapshot)
    page: dict[str, Any] = opened.evaluate(
        "(({trace, map}) => ({start: [...trace.start], end: [...trace.end], bytes: [...trace.start.keys()].map(i => "
        "trace.bytes(i)), active: [...trace.active], place: [...map.map.pieces.place], of: [...map.map.pieces.block]}))"
        "(gmlakeReport)"
    )
    assert page["start"] == blocks.start.tolist()
    assert page["end"] == blocks.end.tolist()
    assert page["bytes"] == blocks.size.tolist()
    assert page["active"] == figures.active(blocks, len(snapshot)).tolist()
    memory_map = subject.runs[0].memory_map
    assert memory_map is not None
    assert page["of"] == memory_map.pieces[:, 0].tolist()
    assert page["place"] == (memory_map.pieces[:, 1] // 256).tolist()


def test_headline_and_table_are_the_results(opened: Browser, subject: Subject) -> None:
    assert text(opened, "h1") == report.headline(subject)
    table = rows(opened, "#comparison")
    assert [row[0] for row in table] == [result.allocator for result in subject.results]
    for row, result in zip(table, subject.results, strict=True):
        assert float(row[1]) == pytest.approx(result.peak_reserved / GIB, abs=0.005)
        assert float(row[2]) == pytest.approx(100 * result.utilisation, abs=0.051)


def test_pointing_at_the_timeline_tells_exact_values(opened: Browser, subject: Subject, snapshot: Trace) -> None:
    area = box(opened, "#timeline .u-over")
    active = figures.active(figures.blocks_of(snapshot), len(snapshot))
    for share in (0.1, 0.5, 0.93):
        opened.mouse("mouseMoved", area["x"] + share * area["width"], area["y"] + 40)
        opened.settle()
        said = text(opened, "#timeline-readout")
        event = int(re.findall(r"event ([\d,]+)", said)[0].replace(",", ""))
        assert event == pytest.approx(share * len(snapshot), abs=len(snapshot) / area["width"] + 1)
        assert f"active {shown(active[event])}" in said
        for run in subject.runs:
            assert run.memory_map is not None
            reserved = figures.reserved(run.memory_map, len(snapshot))
            assert f"{run.result.allocator} {shown(reserved[event])}" in said


def test_every_pixel_of_the_map_is_what_lies_at_its_centre(opened: Browser) -> None:
    for change in ("0", "gmlakeReport.view.set(2000.3, 2101.9)", "gmlakeReport.map.zoomPlaces(0.03, 0.4)"):
        opened.evaluate(change)
        opened.settle()
        wrong = opened.evaluate(
            """(({map, view}) => {
              const {raster, map: {held, count}} = map, {width, height, pixels} = raster;
              let wrong = 0, blocks = 0;
              for (let n = 0; n < 4000; n++) {
                const x = (n * 7919) % width, y = (n * 104729) % height;
                const event = view.from + (x + .5) / width * view.span;
                const place = map.low + (1 - (y + .5) / height) * (map.high - map.low);
                const block = map.blockAt(event, place);
                const isHeld = held.begin.some((begin, i) => begin <= event && event < held.end[i] &&
                  held.place[i] <= place && place < held.place[i] + held.size[i]);
                const kind = map.class[block];
                const allowed = block < 0 ? [isHeld ? map.held : map.paper]
                  : [map.plain[kind], map.edged[kind], ...(count[block] > 1 ? [map.striped[kind]] : [])];
                if (!allowed.includes(pixels[y * width + x])) wrong++;
                if (block >= 0) blocks++;
              }
              return [wrong, blocks];
            })(gmlakeReport)"""
        )
        assert wrong[0] == 0
        assert wrong[1] > 100


def test_pointing_at_a_block_tells_about_it_and_a_click_keeps_it(opened: Browser, snapshot: Trace) -> None:
    area = box(opened, "#map")
    blocks = figures.blocks_of(snapshot)
    block, x, y = opened.evaluate(
        """(({map, view}) => {
          const {pieces} = map.map;
          let best = 0;
          const area = i => (pieces.end[i] - pieces.begin[i]) * pieces.size[i];
          for (let i = 0; i < pieces.block.length; i++) if (area(i) > area(best)) best = i;
          const event = (pieces.begin[best] + pieces.end[best]) / 2;
          return [pieces.block[best], map.x(event), map.y(pieces.place[best] + pieces.size[best] / 2)];
        })(gmlakeReport)"""
    )
    opened.mouse("mouseMoved", area["x"] + x, area["y"] + y)
    opened.settle()
    tip = text(opened, "#tip")
    assert f"#{block}: {shown(blocks.size[block])}" in tip
    assert f"event {blocks.start[block]:,} to" in tip
    opened.click(area["x"] + x, area["y"] + y)
    assert f"#{block}: " in text(opened, "#block")
    opened.key("Escape")
    assert text(opened, "#block") == ""


def test_a_stitched_block_is_shown_as_its_pieces(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "stitched.html"
    (subject,) = report.write(["fsdp"], page, allocators=["gmlake"])
    browser.open(page)
    memory_map = subject.runs[0].memory_map
    assert memory_map is not None
    pieces = memory_map.pieces
    most = int(np.bincount(pieces[:, 0]).argmax())
    own = pieces[pieces[:, 0] == most]
    browser.evaluate(f"gmlakeReport.map.pin({most})")
    said = text(browser, "#block")
    assert f"stitched from {len(own)} pieces" in said
    assert f"{shown(own[0, 2])} at {shown(own[0, 1])}" in said
    assert browser.evaluate(f"gmlakeReport.map.piecesOf({most}).length") == len(own)


def test_what_is_live_is_shown_for_the_peak_and_for_any_moment(opened: Browser, snapshot: Trace) -> None:
    blocks = figures.blocks_of(snapshot)
    peak = figures.peak_event(figures.active(blocks, len(snapshot)))
    assert f"peak, event {peak:,}" in text(opened, "#live-title")
    for event in (peak, 1234):
        opened.evaluate(f"gmlakeReport.view.choose({event})")
        groups = figures.live_groups(snapshot, blocks, event)
        expected = [[g.name, "", shown(g.bytes), f"{g.blocks:,}"] for g in groups]
        assert rows(opened, "#live") == expected


def test_histograms_are_those_of_the_trace(opened: Browser, snapshot: Trace) -> None:
    blocks = figures.blocks_of(snapshot)
    histograms = {"#sizes": figures.size_histogram(blocks), "#lifetimes": figures.lifetime_histogram(blocks)}
    for selector, histogram in histograms.items():
        table = {row[0]: (row[2], row[3]) for row in rows(opened, selector)}
        for name, count, total in zip(histogram.names, histogram.blocks, histogram.bytes, strict=True):
            assert table.get(name) == ((shown(total), f"{count:,}") if count else None)


def test_keys_move_and_zoom(opened: Browser) -> None:
    def view() -> tuple[float, float]:
        begin, end = opened.evaluate("[gmlakeReport.view.from, gmlakeReport.view.to]")
        return begin, end

    whole = view()
    opened.key("+")
    opened.key("+")
    near = view()
    assert near[1] - near[0] == pytest.approx(0.49 * (whole[1] - whole[0]))
    opened.key("ArrowRight")
    assert view()[0] > near[0]
    opened.key("ArrowLeft")
    assert view() == pytest.approx(near)
    opened.key("-")
    assert view()[1] - view()[0] > near[1] - near[0]
    opened.key("ArrowUp", shift=True)
    assert opened.evaluate("gmlakeReport.map.high - gmlakeReport.map.low < gmlakeReport.map.units")
    opened.key("0")
    assert view() == whole
    assert opened.evaluate("gmlakeReport.map.high === gmlakeReport.map.units")
    opened.key("?")
    assert opened.evaluate("document.getElementById('help').open")
    opened.evaluate("document.getElementById('help').close()")
    opened.key("/")
    assert opened.evaluate("document.activeElement.id") == "search"


def test_stepping_through_iterations_ends_with_the_last(browser: Browser, tmp_path: Path) -> None:
    """Also where a mark as the last event ends it, and whatever an allocator came to of them."""
    trace = keep_iterations(read_trace("fsdp"), [0, 1])
    begin, end = trace.marks[-2:].tolist()
    assert end == len(trace) - 1
    page = tmp_path / "steps.html"
    report.write([trace], page, allocators=["caching"], capacity=1 << 30)
    browser.open(page)
    assert "events · 2 iterations" in text(browser, "#facts")
    for _ in range(3):
        browser.key("]")
    assert browser.evaluate("[gmlakeReport.view.from, gmlakeReport.view.to]") == [begin, end]


def test_dragging_moves_and_the_wheel_zooms(opened: Browser) -> None:
    area = box(opened, "#map")
    x, y = area["x"] + area["width"] / 2, area["y"] + area["height"] / 2
    opened.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300, modifiers=2)
    opened.settle()
    begin, span = opened.evaluate("[gmlakeReport.view.from, gmlakeReport.view.span]")
    assert span < opened.evaluate("gmlakeReport.view.events") / 2
    opened.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for step in (20, 60, 120):
        opened.mouse("mouseMoved", x - step, y, button="left", buttons=1)
    opened.mouse("mouseReleased", x - 120, y, button="left", clickCount=1)
    opened.settle()
    moved = opened.evaluate("gmlakeReport.view.from") - begin
    assert moved == pytest.approx(120 / (area["width"] - 88) * span, rel=0.02)


@pytest.mark.parametrize("query", [">=64MiB", "1MiB..3MiB", "<512", "#17", "2 MiB", "nonsense"])
def test_search_finds_what_it_should(opened: Browser, snapshot: Trace, query: str) -> None:
    size = figures.blocks_of(snapshot).size
    expected = {
        ">=64MiB": size >= 64 << 20,
        "1MiB..3MiB": (size >= 1 << 20) & (size <= 3 << 20),
        "<512": size < 512,
        "#17": np.arange(len(size)) == 17,
        "2 MiB": np.array([shown(one) == "2 MiB" for one in size.tolist()]),
        "nonsense": np.zeros(len(size), dtype=bool),
    }[query]
    script = (
        "const input = document.getElementById('search'); input.value = QUERY; input.dispatchEvent(new Event('input'))"
    )
    opened.evaluate("{" + script.replace("QUERY", json.dumps(query)) + "}")
    assert opened.evaluate("gmlakeReport.search.found") == np.flatnonzero(expected).tolist()
    count = int(expected.sum())
    assert text(opened, "#found") == (f"{count:,} blocks" if count else "nothing found")


def test_light_and_dark_follow_the_system_and_the_button(opened: Browser) -> None:
    def background() -> str:
        return str(opened.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    opened.prefer("dark")
    opened.settle()
    dark = background()
    assert light != dark
    assert opened.evaluate("gmlakeReport.map.raster.pixels.includes(gmlakeReport.map.held)")
    opened.key("t")
    assert background() == light


def test_a_phone_needs_no_sideways_scrolling(opened: Browser, page: Path) -> None:
    opened.resize(360, 740, density=2, phone=True)
    opened.open(page)
    assert opened.evaluate("document.documentElement.scrollWidth") == 360
    assert opened.evaluate("gmlakeReport.map.raster.width") == 2 * (360 - 2 * 16 - 88) + 2 * 2 * 2  # margins of 14 px
    assert opened.complaints == []


def test_running_out_of_memory_is_shown_where_it_happens(browser: Browser, snapshot: Trace, tmp_path: Path) -> None:
    page = tmp_path / "short.html"
    (subject,) = report.write([snapshot], page, capacity=5 * GIB, allocators=["caching", "gmlake"])
    browser.open(page)
    assert all(result.out_of_memory is not None for result in subject.results)
    table = rows(browser, "#comparison")
    for row, result in zip(table, subject.results, strict=True):
        assert f"{result.out_of_memory:,}" in row
        assert str(result.out_of_memory_message) in text(browser, "#notes")
    assert "Out of memory: caching, gmlake." in text(browser, "h1")
    browser.evaluate(f"gmlakeReport.view.choose({len(snapshot) - 1})")
    assert "caching –" in text(browser, "#timeline-readout")
    until = subject.results[0].out_of_memory
    assert until is not None
    assert browser.evaluate("Math.max(...gmlakeReport.map.map.pieces.end)") <= until + 1
    assert browser.complaints == []


def test_names_from_a_trace_never_become_markup(browser: Browser, called: Trace, tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    (subject,) = report.write([called, called], page, title=HOSTILE)[:1]
    assert HOSTILE not in page.read_text()
    browser.open(page)
    assert browser.evaluate("document.title") == HOSTILE
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert HOSTILE in text(browser, "#facts")
    assert any(HOSTILE in row[0] for row in rows(browser, "#live"))
    browser.evaluate("gmlakeReport.map.pin(2)")
    assert HOSTILE in text(browser, "#block")
    for _ in subject.results:
        browser.settle()
    assert browser.evaluate("window.hacked") is None
    assert browser.complaints == []


def test_the_policy_admits_no_other_script(opened: Browser) -> None:
    opened.evaluate(
        "{const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')}"
    )
    opened.settle()
    assert opened.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_call_sites_can_be_searched_and_coloured(browser: Browser, called: Trace, tmp_path: Path) -> None:
    page = tmp_path / "called.html"
    report.write([called], page, allocators=["gmlake", "caching"])
    browser.open(page)
    groups = figures.live_groups(called, figures.blocks_of(called), int(browser.evaluate("gmlakeReport.view.moment")))
    assert [row[0] for row in rows(browser, "#live")] == [group.name for group in groups]
    assert "by call site" in text(browser, "#live-title")
    browser.evaluate(
        "{const i = document.getElementById('search'); i.value = 'MODEL.py'; i.dispatchEvent(new Event('input'))}"
    )
    assert text(browser, "#found") == "6 blocks"
    browser.evaluate("gmlakeReport.search.next(1)")
    assert "model.py:42 forward" in text(browser, "#block")
    assert "linear (/usr/lib/python3/dist-packages/torch/nn/functional.py:7)" in text(browser, "#block")
    browser.evaluate("gmlakeReport.map.colourBy('call site')")
    assert "train.py:9 main" in text(browser, "#map-legend")
    browser.evaluate("gmlakeReport.map.show('caching')")
    assert browser.evaluate("gmlakeReport.map.allocator") == "caching"
    assert text(browser, "#calls-readout").startswith("iteration 5")  # of 6, counted from 0 as by gmlake convert
    assert browser.complaints == []


def test_saved_results_and_runs_have_pages_too(browser: Browser, subject: Subject, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"results": [result.to_json() for result in subject.results]}))
    device = {
        "device": 0,
        "name": "NVIDIA A100-SXM4-80GB",
        "peak_requested": 5,
        "peak_active": 512,
        "peak_reserved": 2 << 20,
        "retries": 0,
        "out_of_memory": 1,
    }
    process = {"pid": 4711, "rank": 3, "backend": "gmlake", "devices": [device]}
    other = {"pid": 4712, "rank": None, "backend": "native", "devices": [device | {"device": 1}]}
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"status": 0, "emulated": None, "processes": [process, other], "traces": []}))
    runs = [{"allocator": name, "status": 0, "processes": [other]} for name in ("torch", "expandable")]
    comparison = tmp_path / "comparison.json"
    comparison.write_text(json.dumps({"emulated": None, "runs": runs, "saving": "gmlake reserves less."}, indent=2))
    page = tmp_path / "saved.html"
    report.write([results, run, comparison], page)
    browser.open(page)
    assert text(browser, "h1") == report.headline(subject)
    assert len(rows(browser, "#comparison")) == len(subject.results)
    assert browser.evaluate("document.getElementById('map-section').hidden")
    browser.evaluate("document.querySelectorAll('#subjects button')[1].click()")
    browser.settle()
    peaks = ["5 B", "512 B", "2 MiB", "0", "1"]
    assert rows(browser, "#comparison") == [["rank 3 (4711)", "gmlake", "0", *peaks], ["4712", "torch", "1", *peaks]]
    browser.evaluate("document.querySelectorAll('#subjects button')[2].click()")
    browser.settle()
    assert [row[:3] for row in rows(browser, "#comparison")] == [["4712", "torch", "1"], ["4712", "expandable", "1"]]
    assert text(browser, "h1") == "gmlake reserves less."
    assert "simulated" not in text(browser, "footer")
    assert browser.complaints == []


def test_many_traces_have_tabs_beside_each_other(browser: Browser, subject: Subject, tmp_path: Path) -> None:
    page = tmp_path / "many.html"
    saved = Subject("a trace with a name of some length", subject.results)
    report.write_subjects([saved] * 15, page)
    browser.open(page)
    tabs = "[...document.querySelectorAll('#subjects button')]"
    assert browser.evaluate(f"{tabs}.every(tab => tab.scrollWidth <= tab.clientWidth)")
    assert browser.evaluate("document.documentElement.scrollWidth") == 1280
    browser.evaluate(f"{tabs}.at(-1).scrollIntoView()")
    assert browser.evaluate(f"{tabs}.at(-1).getBoundingClientRect().right < 1280")


@pytest.mark.parametrize("trace", ODD, ids=lambda trace: trace.name)
def test_odd_traces_have_pages_too(browser: Browser, trace: Trace, tmp_path: Path) -> None:
    page = tmp_path / "odd.html"
    report.write([trace], page, allocators=["gmlake", "caching"])
    browser.open(page)
    for key in ("+", "ArrowLeft", "]", "n", "t", "0"):
        browser.key(key)
    area = box(browser, "#map")
    browser.click(area["x"] + 300, area["y"] + 100)
    assert browser.complaints == []
    if trace.name == "huge":
        assert f"active {shown(1 << 45)}" in text(browser, "#timeline-readout")


def test_two_fingers_zoom(opened: Browser, page: Path) -> None:
    opened.resize(390, 800, density=2, phone=True)
    opened.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    try:
        opened.open(page)
        area = box(opened, "#map")
        y = area["y"] + area["height"] / 2

        def fingers(kind: str, *xs: float) -> None:
            points = [{"x": area["x"] + x, "y": y, "id": number} for number, x in enumerate(xs)]
            opened.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

        fingers("touchStart", 180, 220)
        for step in range(1, 11):
            fingers("touchMove", 180 - 6 * step, 220 + 6 * step)
        fingers("touchEnd")
        opened.settle()
        assert opened.evaluate("gmlakeReport.view.span / gmlakeReport.view.events") < 0.5
    finally:
        opened.call("Emulation.setTouchEmulationEnabled", enabled=False)
