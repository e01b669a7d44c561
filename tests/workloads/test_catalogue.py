"""The catalogue: what it holds, what it refuses, and that its lengths are always the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gmlake.errors import UserError
from gmlake.workloads.catalogue import FOLDER, SHAPES, family, read_toml, select, suites, workloads
from gmlake.workloads.evaluation import TITLES, published
from gmlake.workloads.recording import VERSIONS
from gmlake.workloads.workload import ENGINES, STRATEGIES, draw

PAPER = ("opt-1.3b", "opt-13b", "vicuna-13b", "gpt-neox-20b", "gpt2-1.5b", "glm-10b")
TODAY = ("llama-3-8b", "qwen1.5-moe", "llama-3-8b-rl", "vit-huge", "dit-xl")


def test_there_are_more_than_eighty_and_no_id_twice() -> None:
    assert len(workloads()) >= 80
    assert len({workload.file_name for workload in workloads().values()}) == len(workloads())
    assert {workload.family for workload in workloads().values()} == {*PAPER, *TODAY, "tiny"}


def test_every_dimension_is_there() -> None:
    paper = suites()["paper"]
    assert {workload.gpus for workload in paper} == {1, 2, 4, 8, 16}
    assert {workload.strategy for workload in paper} == set(STRATEGIES)
    assert {workload.engine for workload in paper} == set(ENGINES) - {"none"}
    assert {workload.shapes for workload in paper} == {"fix", "var"}
    assert {table for workload in paper for table in workload.tables} == set(TITLES)
    assert {workload.task for workload in suites()["beyond"]} == {"text", "generation", "images", "diffusion"}


def test_warm_iterations_exist() -> None:
    assert min(workload.iterations for workload in workloads().values()) >= 14


def test_an_id_says_all(root: Path) -> None:
    for name, workload in workloads().items():
        of, engine, strategy, gpus, batch, shapes = name.split("/")
        assert (of, engine, strategy, shapes) == (
            workload.family,
            workload.engine,
            workload.strategy,
            workload.shapes,
        )
        assert (gpus, batch) == (f"{workload.gpus}gpu", f"b{workload.batch}")


def test_every_published_figure_has_a_workload() -> None:
    figures = read_toml(FOLDER.parent / "published.toml")
    wanted = sum(len(rows) if isinstance(rows, dict) else 1 for table in figures.values() for rows in table.values())
    found = {
        (name, workload.family, tuple(row))
        for workload in suites()["paper"]
        for name in workload.tables
        if (row := published(name, workload)) is not None
    }
    assert len(found) == wanted


def test_lengths_are_drawn_the_same_every_time() -> None:
    lengths = select(["opt-13b/zero3/LR/4gpu/b88/var"])[0].shape_list()
    assert lengths == [317, 435, 212, 408, 281, 280, 501, 323, 303, 381, 422, 304, 367, 208, 270, 262]
    assert select(["opt-13b/zero3/LR/4gpu/b88/fix"])[0].shape_list() == [435] * 14


def test_lengths_are_cut_off_at_both_ends() -> None:
    drawn = draw({"kind": "normal", "mean": 100, "deviation": 1000, "low": 64, "high": 512}, 100, seed=1)
    assert min(map(int, drawn)) == 64  # type: ignore[arg-type]
    assert max(map(int, drawn)) == 512  # type: ignore[arg-type]


def test_versions_are_those_of_the_requirements(root: Path) -> None:
    pinned = "".join((root / "requirements" / f"{name}.txt").read_text() for name in ("emulated", "deepspeed"))
    newest = rf"^({'|'.join(VERSIONS)})==([^;\n]+)(?:; python_version >= .*)?$"  # one has another for older Pythons
    assert dict(re.findall(newest, pinned, re.MULTILINE)) == VERSIONS


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("opt-13b/zero3/LR/4gpu/b89/var", "opt-13b/zero3/LR/4gpu/b88/var"),
        ("papre", "paper"),
        ("vicuna-13", "vicuna-13b"),
        ("?", "gmlake workloads list shows them"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(name: str, suggested: str) -> None:
    with pytest.raises(UserError, match=re.escape(suggested)):
        select([name])


GRID = '[[grid]]\nengine = ["zero3"]\nstrategy = ["R"]\ngpus = [4]\nbatch = [1, 2]\nshapes = ["fix"]\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("abuot = 1\n" + GRID, "my.toml has 'abuot'; expected one of about"),
        (GRID + "batches = 1\n", "a grid of my.toml has 'batches'"),
        (GRID.replace('"R"', '"X"'), "there is no strategy 'X'; expected one of N, R, LR"),
        (GRID.replace("zero3", "zero9"), "there is no engine 'zero9'"),
        (GRID.replace("fix", "fox"), "there is no shapes 'fox'"),
        ("[[", "my.toml is not valid TOML"),
    ],
)
def test_a_mistake_in_a_family_is_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(f'about = ""\nmodel = {{}}\n{text}' if not text.startswith("abuot") else text)
    with pytest.raises(UserError, match=re.escape(complaint)):
        list(family(path, read_toml(FOLDER / SHAPES)))


def test_a_grid_expands_to_every_combination(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('about = ""\nmodel = {}\n' + GRID.replace("[4]", "[4, 8]"))
    found = [workload.id for workload in family(path, read_toml(FOLDER / SHAPES))]
    assert found == [f"my/zero3/R/{gpus}gpu/b{batch}/fix" for gpus in (4, 8) for batch in (1, 2)]
