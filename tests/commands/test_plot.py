"""gmlake plot, as a user runs it, and what is in its pictures."""

from __future__ import annotations

import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gmlake import plot, report
from gmlake.__main__ import main
from gmlake.errors import UserError
from gmlake.report import Subject, figures
from tests.report.conftest import ODD

from .conftest import Cli, assert_refused

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gmlake[plot]'")


@pytest.fixture(scope="module")
def subject() -> Subject:
    """A recorded step of a small fine-tuning, as if it had iterations."""
    subject = report.gather(["snapshot"])[0]
    return replace(subject, results=tuple(replace(r, iteration_driver_calls=(9, 3, 0)) for r in subject.results))


def drawn(subject: Subject, kind: str, **look: object) -> str:
    """The words in a picture."""
    path = Path(str(look.pop("folder"))) / f"{kind}.svg"
    plot.write([subject], kind, path, plot.Look(**look))  # type: ignore[arg-type]
    return " ".join(re.findall(r">([^<>]+)</text>", path.read_text()))


@pytest.mark.parametrize("kind", plot.KINDS)
@pytest.mark.parametrize("style", ["light", "dark"])
def test_every_kind_makes_a_picture(kind: str, style: str, subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    plot.write([subject], kind, path, plot.Look(style=style, size=(5, 3), dpi=40))
    assert path.read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    pixels = imread(path)
    assert pixels.shape[:2] == (120, 200)
    paper = {"light": 1.0, "dark": 20 / 255}[style]
    assert pixels[0, 0, 0] == pytest.approx(paper, abs=0.01)
    assert len(np.unique(pixels[:, :, :3].reshape(-1, 3), axis=0)) > 20


def test_the_timeline_draws_what_was_replayed(subject: Subject) -> None:
    from gmlake.plot import overtime, style

    with style.themed("light") as theme:
        panel = overtime.timeline([subject], theme, plot.USUAL).axes[0]
    lines = {line.get_label().partition(",")[0]: line for line in panel.get_lines()}
    for run in subject.runs:
        assert max(lines[run.result.allocator].get_ydata()) == run.result.peak_reserved
    assert max(panel.get_lines()[0].get_ydata()) == subject.results[0].peak_active


def test_iterations_are_counted_as_convert_counts_them(subject: Subject) -> None:
    from gmlake.plot import bars, style

    with style.themed("light") as theme:
        lines = bars.calls([subject], theme, plot.USUAL).axes[0].get_lines()
    assert [([*line.get_xdata()], [*line.get_ydata()]) for line in lines] == [([0, 1, 2], [9, 3, 0])] * 4


def test_few_blocks_are_boxes_at_their_places(root: Path) -> None:
    from matplotlib.patches import Rectangle

    from gmlake.plot import maps, style

    subject = report.gather([root / "examples" / "stitching.csv"], ["gmlake"])[0]
    memory_map = subject.runs[0].memory_map
    assert memory_map is not None and subject.trace is not None
    with style.themed("light") as theme:
        panel = maps.memory_map([subject], theme, plot.USUAL).axes[0]
    boxes = {(*box.get_xy(), box.get_width(), box.get_height()) for box in panel.patches if isinstance(box, Rectangle)}
    blocks = figures.blocks_of(subject.trace)
    for block, place, size in memory_map.pieces.tolist():
        assert (blocks.start[block], place, blocks.end[block] - blocks.start[block], size) in boxes
    assert np.bincount(memory_map.pieces[:, 0]).max() > 2  # or the picture would explain nothing


@pytest.mark.parametrize("size", [None, (5, 3), (3.5, 2.5)])
@pytest.mark.parametrize("kind", plot.KINDS)
def test_words_fit_and_leave_room_for_what_is_drawn(
    kind: str, size: tuple[float, float] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from gmlake.plot import style

    variant = "caching:max_split_size_mb=128,roundup_power2_divisions=4"
    (subject,) = report.gather(["snapshot"], ["gmlake", "expandable", variant])
    subject = replace(subject, results=tuple(replace(r, iteration_driver_calls=(9, 3, 0)) for r in subject.results))
    figure = Figure()

    def save(drawn: Figure, *_: object) -> None:
        nonlocal figure
        figure = drawn
        figure.draw_without_rendering()

    monkeypatch.setattr(style, "save", save)
    plot.write([subject], kind, tmp_path / "picture.png", plot.Look(size=size))
    outside: list[Text] = []
    for axis in (axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)):
        low, high = sorted(axis.get_view_interval())
        marks = axis.get_major_ticks()
        outside += [tick.label1 for tick in marks if not low <= tick.get_loc() <= high]
        boxes = [tick.label1.get_window_extent() for tick in marks if tick.label1 not in outside]
        if axis.axis_name == "x" and kind not in ("sizes", "lifetimes"):  # whose names are aslant
            assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text not in outside:
            box, edge = text.get_window_extent(), figure.bbox
            assert min(box.x0, box.y0, edge.x1 - box.x1, edge.y1 - box.y1) > -3, text
    assert sum(panel.get_position().width * panel.get_position().height for panel in figure.axes) > 0.17


@pytest.mark.parametrize("kind", [kind for kind in plot.KINDS if kind != "calls"])
def test_odd_traces_can_be_drawn(kind: str, tmp_path: Path) -> None:
    plot.write(report.gather(ODD, ["gmlake"]), kind, tmp_path / "odd.png", plot.Look(dpi=20))
    assert (tmp_path / "odd.png").stat().st_size > 500


@pytest.mark.parametrize("kind", ["timeline", "fragmentation"])
def test_a_single_event_can_be_seen(kind: str) -> None:
    from gmlake.plot import overtime, style

    with style.themed("light") as theme:
        figure = getattr(overtime, kind)(report.gather([ODD[1]], ["gmlake"]), theme, plot.USUAL)
    assert [[*line.get_xdata()] for line in figure.axes[0].get_lines()][-1] == [0, 1]


@pytest.mark.parametrize("kind", ["sizes", "lifetimes"])
def test_blocks_are_counted_in_whole_numbers(kind: str, tmp_path: Path) -> None:
    for trace in ODD:
        plot.write(report.gather([trace], ["gmlake"]), kind, tmp_path / "picture.svg")
        words = re.findall(r">([^<>]+)</text>", (tmp_path / "picture.svg").read_text())
        assert words.count("0") == 1 and "-0" not in words and "\u22120" not in words


@pytest.mark.parametrize("kind", plot.KINDS)
def test_each_of_several_traces_is_named(kind: str, subject: Subject, tmp_path: Path) -> None:
    named = [replace(subject, name=name) for name in ("first", "second")]
    plot.write(named, kind, tmp_path / "picture.svg")
    words = " ".join(re.findall(r">([^<>]+)</text>", (tmp_path / "picture.svg").read_text()))
    assert (words.count("first"), words.count("second")) == (1, 1)


def test_words_in_pictures(subject: Subject, tmp_path: Path) -> None:
    words = drawn(subject, "needs", folder=tmp_path, title="What it needs")
    assert "What it needs" in words
    for result in subject.results:
        assert result.allocator in words
    assert "not freed" in drawn(subject, "lifetimes", folder=tmp_path)
    assert "live at event" in drawn(subject, "peak", folder=tmp_path)


@pytest.mark.parametrize("kind", plot.KINDS)
def test_words_are_not_read_as_formulas(kind: str, subject: Subject, tmp_path: Path) -> None:
    name = r"a$x_{$b"
    words = drawn(replace(subject, name=name), kind, folder=tmp_path, title=r"$\frac{$")
    assert r"$\frac{$" in words
    assert name in words or kind == "map"  # whose panels bear the names of allocators
    assert "mathdefault" not in words


def test_the_picture_in_the_documentation_is_current(cli: Cli, root: Path, tmp_path: Path) -> None:
    command = next(line for line in (root / "docs" / "plot.md").read_text().splitlines() if "stitching.svg" in line)
    arguments = command.split("#")[0].split()[1:]
    arguments = [str(root / word) if word.startswith("examples/") else word for word in arguments]
    arguments[arguments.index("-o") + 1] = "stitching.svg"
    assert cli(*arguments).returncode == 0
    texts = [
        re.findall(r">([^<>]+)</text>", path.read_text())
        for path in (root / "docs" / "images" / "stitching.svg", tmp_path / "stitching.svg")
    ]
    assert texts[0] == texts[1]
    assert any("gmlake" in text for text in texts[0])


def test_the_same_input_gives_the_same_file(subject: Subject, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        plot.write([subject], "timeline", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_prints_where_it_is_and_what_comes_next(cli: Cli, npz: Path, tmp_path: Path) -> None:
    done = cli("plot", npz, "-o", "picture.png", "--events", "10..40", "--capacity", "64MiB")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "picture.png").is_file()
    assert "Next: gmlake report" in done.stdout
    printed = json.loads(cli("plot", npz, "-o", "picture.png", "-f", "--json", "--kind", "calls").stdout)
    assert (printed["picture"], printed["kind"], len(printed["results"])) == ("picture.png", "calls", 4)


def test_saved_results_can_be_drawn_in_part(cli: Cli, npz: Path, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(cli("replay", npz, "--json").stdout)
    assert cli("plot", "results.json", "--kind", "needs", "-o", "needs.svg").returncode == 0
    assert_refused(cli("plot", "results.json", "--kind", "map", "-o", "map.svg"), "loop: is no trace")


def test_driver_calls_need_iterations(cli: Cli) -> None:
    complaint = "snapshot: there is no iteration whose driver calls could be drawn"
    assert_refused(cli("plot", "snapshot", "--kind", "calls", "-o", "calls.svg"), complaint)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-o", "picture.gif"), "should end in .png or .svg or .pdf"),
        (("-o", "picture.png", "--size", "8"), "like 8x4"),
        (("-o", "picture.png", "--size", "0x4"), "from 1 to 100 inches"),
        (("-o", "picture.png", "--events", "9..3"), "like 1000..2000"),
        (("-o", "picture.png", "--events", "0.." + "9" * 5000), "like 1000..2000"),
        (("-o", "picture.png", "--events", "71..90"), "loop has 71 events: --events 71..90 is past its end"),
        (("-o", "picture.png", "--dpi", "5"), "from 20 to 1200"),
        (
            ("-o", "picture.png", "--size", "100x100", "--dpi", "1200"),
            "120,000 x 120,000 pixels is too large",
        ),
        (("-o", "picture.png", "--size", "1x60", "--dpi", "1200"), "65,535 a side are drawn; choose a smaller --size"),
        (("-o", "picture.svg", "--size", "100x100", "--dpi", "1200", "--kind", "map"), "is too large"),
        (("-o", "picture.png", "--kind", "pie"), "invalid choice"),
    ],
)
def test_mistakes_are_told_in_one_sentence(cli: Cli, npz: Path, arguments: tuple[str, ...], complaint: str) -> None:
    assert_refused(cli("plot", npz, *arguments), complaint)


@pytest.mark.parametrize("kind", plot.KINDS)
def test_a_stretch_of_time_is_for_what_is_drawn_over_time(kind: str, subject: Subject, tmp_path: Path) -> None:
    words = drawn(subject, kind, folder=tmp_path)
    try:
        part = drawn(subject, kind, folder=tmp_path, events=(300, 400))
    except UserError as error:
        assert f"(timeline, map, fragmentation), not for {kind}" in str(error)
        assert kind not in plot.OVER_TIME
    else:
        assert kind in plot.OVER_TIME
        assert ("320" in part.split(), "320" in words.split()) == (True, False)


def test_many_inputs_may_make_too_large_a_picture(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"9,600 x 8.,... pixels is too large"):
        plot.write([subject] * 20, "timeline", tmp_path / "picture.png", plot.Look(dpi=1200))
    assert not (tmp_path / "picture.png").exists()


def test_a_summary_of_a_run_is_nothing_to_draw(tmp_path: Path) -> None:
    summary = Subject("run", processes=({"pid": 1},))
    with pytest.raises(UserError, match="run: of a run's summary nothing can be drawn; record it with --record"):
        plot.write([summary], "needs", tmp_path / "picture.png")


def test_without_pixels_a_picture_may_have_any_size(subject: Subject, tmp_path: Path) -> None:
    assert "gmlake" in drawn(subject, "timeline", folder=tmp_path, size=(100, 100), dpi=1200)


def test_without_matplotlib_it_says_what_to_install(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot", str(npz), "-o", str(tmp_path / "picture.png")]) == 2
    assert "pip install 'gmlake[plot]'" in capsys.readouterr().err
