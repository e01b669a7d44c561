"""Run the benchmarks and print their answers.

Times are compared within one run only: contenders take turns, and what counts is
the median of the ratios of a turn. Instructions are counted by callgrind.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from bench import (
    how_does_cost_grow,
    how_fast_is_a_pair,
    how_fast_is_replay,
    how_fluid_is_a_report,
    how_many_instructions_is_a_pair,
)
from bench.answer import Answer, show

BENCHMARKS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        how_fast_is_a_pair,
        how_many_instructions_is_a_pair,
        how_fast_is_replay,
        how_does_cost_grow,
        how_fluid_is_a_report,
    )
}


def main() -> int:
    """Run what was asked for, or everything."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="benchmarks:\n" + "\n".join(f"  {name}\n      {module.QUESTION}" for name, module in BENCHMARKS.items()),
    )
    parser.add_argument("benchmark", nargs="*", choices=[[], *BENCHMARKS], help="default: all of them")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, less to be trusted")
    parser.add_argument("--json", action="store_true", help='print {"benchmarks": [...]} and nothing else')
    args = parser.parse_args()

    console = Console(stderr=args.json)
    answers: list[Answer] = []
    for name in args.benchmark or BENCHMARKS:
        with console.status(f"{name} ..."):
            answers.append(BENCHMARKS[name].answer(quick=args.quick))
        if not args.json:
            show(answers[-1], console)
    if args.json:
        print(json.dumps({"benchmarks": [answer.to_json() for answer in answers]}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
