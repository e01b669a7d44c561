"""The catalogue: every family is a TOML file of this folder, with a model and grids that expand to workloads.

    about = "one line"
    task = "text"                     # or generation, images, diffusion: a module of gmlake.workloads.jobs
    [model]
    config = "OPTConfig"              # a class of transformers, or of the task, and below it all of its numbers
    numbers = { hidden_size = 5120 }
    lora = ["q_proj", "v_proj"]       # the layers that get adapters
    attention = "eager"
    [[grid]]                          # every combination of the lists is a workload
    engine = ["zero3", "fsdp2"]
    strategy = ["R", "LR"]
    gpus = [4]
    batch = { R = [28], LR = [88] }   # a list for all strategies, or one for each
    shapes = ["fix", "var"]           # names of distributions: below in [shapes], or in shapes.toml
    suites = ["paper"]
    tables = ["strategies"]           # tables of the paper in which these appear
    iterations = 14                   # unless shapes.toml says otherwise
    [grid.options]                    # of the task

A workload that several grids name is one workload, in all their suites and tables.
"""

from __future__ import annotations

import difflib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gmlake.errors import UserError
from gmlake.workloads.workload import ENGINES, STRATEGIES, Workload

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
SHAPES = "shapes.toml"
_FAMILY = {"about", "task", "model", "shapes", "grid"}
_GRID = {"engine", "strategy", "gpus", "batch", "shapes", "suites", "tables", "iterations", "options"}


@cache
def workloads() -> dict[str, Workload]:
    """Every workload by its id: families by name, each in the order of its file."""
    common = read_toml(FOLDER / SHAPES)
    found: dict[str, Workload] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        if path.name != SHAPES:
            for workload in family(path, common):
                known = found.get(workload.id)
                found[workload.id] = workload if known is None else _merged(known, workload)
    return found


def suites() -> dict[str, list[Workload]]:
    """The workloads of every suite."""
    found: dict[str, list[Workload]] = {}
    for workload in workloads().values():
        for suite in workload.suites:
            found.setdefault(suite, []).append(workload)
    return found


def select(names: list[str]) -> list[Workload]:
    """The workloads of these ids, first parts of ids and suites, each once."""
    chosen: dict[str, Workload] = {}
    for name in names:
        matching = list(_matching(name))
        if not matching:
            raise UserError(f"there is no workload, family or suite '{name}'{_near(name)}")
        chosen |= {workload.id: workload for workload in matching}
    return list(chosen.values())


def _matching(name: str) -> Iterator[Workload]:
    prefix = name.rstrip("*").rstrip("/")
    for workload in workloads().values():
        if name == "all" or name in workload.suites or workload.id == name or workload.id.startswith(prefix + "/"):
            yield workload


def _near(name: str) -> str:
    known = [*workloads(), *{workload.family for workload in workloads().values()}, *suites()]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else "; gmlake workloads list shows them"


def family(path: Path, common: dict[str, Any]) -> Iterator[Workload]:
    """The workloads of one file."""
    described = read_toml(path)
    _only(described, _FAMILY, path.name)
    shapes = common["shapes"] | described.get("shapes", {})
    for grid in described["grid"]:
        _only(grid, _GRID, f"a grid of {path.name}")
        for engine, strategy, gpus, name in itertools.product(
            grid["engine"], grid["strategy"], grid["gpus"], grid["shapes"]
        ):
            batches = grid["batch"]
            for batch in batches[strategy] if isinstance(batches, dict) else batches:
                yield _workload(path.stem, described, grid, (engine, strategy, gpus, batch, name), shapes)


def _workload(
    name: str, described: dict[str, Any], grid: dict[str, Any], point: tuple[Any, ...], shapes: dict[str, Any]
) -> Workload:
    engine, strategy, gpus, batch, shape = point
    for value, known, what in (
        (engine, ENGINES, "engine"),
        (strategy, STRATEGIES, "strategy"),
        (shape, shapes, "shapes"),
    ):
        if value not in known:
            raise UserError(f"{name}.toml: there is no {what} '{value}'; expected one of {', '.join(known)}")
    return Workload(
        id=f"{name}/{engine}/{strategy}/{gpus}gpu/b{batch}/{shape}",
        family=name,
        about=described["about"],
        task=described.get("task", "text"),
        model=described["model"],
        engine=engine,
        strategy=strategy,
        gpus=gpus,
        batch=batch,
        shapes=shape,
        distribution=shapes[shape],
        iterations=grid.get("iterations", shapes[shape]["iterations"]),
        seed=shapes[shape].get("seed", 0),
        suites=tuple(grid.get("suites", ())),
        tables=tuple(grid.get("tables", ())),
        options=grid.get("options", {}),
    )


def _merged(first: Workload, second: Workload) -> Workload:
    return replace(
        first,
        suites=tuple(dict.fromkeys(first.suites + second.suites)),
        tables=tuple(dict.fromkeys(first.tables + second.tables)),
    )


def read_toml(path: Path) -> dict[str, Any]:
    """A file of ours; a mistake in it is one sentence."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text())
        return found
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path.name} is not valid TOML: {error}") from error


def _only(table: dict[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise UserError(f"{where} has '{key}'; expected one of {', '.join(sorted(known))}")
