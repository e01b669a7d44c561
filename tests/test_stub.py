"""The hand-written stub of the native module names what the module has, no more and no less."""

from __future__ import annotations

import ast
from pathlib import Path

from gmlake import _core


def declared(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def existing(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def test_stub_matches_the_module(root: Path) -> None:
    tree = ast.parse((root / "src/gmlake/_core.pyi").read_text())
    assert declared(tree.body) == existing(_core)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name != "Status":
            assert declared(node.body) == existing(getattr(_core, node.name)), node.name
    status = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Status")
    values = {
        n.targets[0].id: ast.literal_eval(n.value)
        for n in status.body
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    assert values == {member.name: member.value for member in _core.Status}
