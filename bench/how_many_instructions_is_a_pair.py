"""The cached pair, counted: instructions under callgrind, which are exact, and ours by function."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from bench.answer import Answer, Cell, Table, Target
from bench.building import build

QUESTION = "How many instructions does a cached malloc+free pair take, and where do ours go?"
PAIRS = 20_000
COUNTS = (10, 1_000, 20_000)
CONTENDERS = ("gmlake", "ordered-set", "caching")
SHOWN = 12  # functions


def answer(quick: bool) -> Answer:
    """Count them under callgrind, which is exact: once is enough."""
    result = Answer(QUESTION)
    if shutil.which("valgrind") is None:
        result.notes = ["valgrind is not installed: nothing was counted."]
        return result
    program = build("how_fast_is_a_pair")
    table = Table("Instructions per pair", ("blocks", "of", "gmlake", "ordered set", "caching"))
    profile = Table("Where ours go, per pair, 1,000 blocks", ("blocks", "instructions", "function"))
    for kind in ("small", "large"):
        most = 0.0
        for blocks in COUNTS[:2] if quick else COUNTS:
            row: list[Cell] = [kind, blocks]
            for contender in CONTENDERS:
                functions = count(program, contender, kind, blocks)
                row.append(sum(functions.values()))
                if contender == "gmlake":
                    most = max(most, sum(functions.values()))
                if contender == "gmlake" and blocks == 1_000:
                    profile.rows += [(kind, cost, name) for name, cost in list(functions.items())[:SHOWN]]
            table.rows.append(tuple(row))
        result.targets.append(Target(f"{kind}: instructions per pair, at most", most, at_most=500))
    result.tables = [table, profile]
    return result


def count(program: Path, contender: str, kind: str, blocks: int) -> dict[str, float]:
    """Instructions per pair by function, most first. Only the timed loop is counted, not the preparations."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        callgrind = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*timed_pairs*"]
        command = [str(program), kind, str(blocks), str(blocks), "1", "1", str(PAIRS), contender]
        done = subprocess.run(
            [*callgrind, f"--callgrind-out-file={profile}", *command],
            capture_output=True,
            text=True,
            check=True,
        )
        pairs = json.loads(done.stdout)["pairs"]
        costs = _self_costs(profile.read_text().splitlines())
    return {name: cost / pairs for name, cost in costs.most_common()}


def _self_costs(lines: list[str]) -> Counter[str]:
    """What every function took without those it called, from callgrind's file."""
    costs: Counter[str] = Counter()
    names: dict[str, str] = {}
    function, called = "", False
    for line in lines:
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            names.setdefault(match[2], match[3])
            function = function if match[1] else names[match[2]]
        elif line.startswith("calls="):
            called = True
        elif re.match(r"[\d+*-]", line):
            if not called:  # the line after a call is the cost of the called
                costs[function] += int(line.split()[1])
            called = False
    return costs
