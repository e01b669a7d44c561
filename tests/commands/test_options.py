"""gmlake options, as a user runs it."""

from __future__ import annotations

import json

import pytest

from .conftest import Cli, assert_refused


def test_every_option_has_a_value_an_origin_and_a_meaning(cli: Cli) -> None:
    options = json.loads(cli("options", "--json").stdout)["options"]
    assert {"gmlake", "caching"} <= {option["allocator"] for option in options}
    for option in options:
        assert set(option) == {"allocator", "name", "value", "origin", "meaning"}
        assert option["origin"] == "default"
        assert option["meaning"]


def test_the_environment_is_the_origin_of_what_it_sets(cli: Cli) -> None:
    first = json.loads(cli("options", "gmlake", "--json").stdout)["options"][0]
    variable = f"GMLAKE_{first['name'].upper()}"
    again = json.loads(cli("options", "gmlake", "--json", env={variable: first["value"]}).stdout)["options"][0]
    assert again == first | {"origin": variable}


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("GMLAKE_TARGET", "nonsense!", "GMLAKE_TARGET: option target needs a number, not 'nonsense!'"),
        ("GMLAKE_TARGET", "7", "GMLAKE_TARGET: option target must be above 0 and at most 1, not 7"),
        ("GMLAKE_TARGET", "0.9,small_limit=1MiB", "GMLAKE_TARGET: option target needs a number"),
        ("GMLAKE_TARGTE", "0.9", "GMLAKE_TARGTE: unknown option 'targte'; the options are target, chunk_limit"),
        ("GMLAKE_TARGTE", "0.9", "; did you mean GMLAKE_TARGET?"),
        ("GMLAKE_LGO", "info", "; did you mean GMLAKE_LOG?"),
        ("GMLAKE_COMPARE", "perhaps", "GMLAKE_COMPARE is 1 or 0, not 'perhaps'"),
        ("GMLAKE", "perhaps", "GMLAKE=perhaps means nothing; expected 1, strict or 0"),
    ],
)
def test_a_variable_that_makes_no_sense_is_an_error(cli: Cli, variable: str, value: str, complaint: str) -> None:
    """The list is there all the same, for the right name may be in it; other allocators do not read the variable."""
    done = cli("options", env={variable: value})
    assert done.returncode == 2
    assert "chunk_limit" in done.stdout
    assert done.stderr.startswith("gmlake: error: ") and done.stderr.count("\n") == 1
    assert complaint in done.stderr
    assert len(json.loads(cli("options", "gmlake", "--json", env={variable: value}).stdout)["options"]) == 4
    assert cli("options", "caching", env={variable: value}).returncode == 0


def test_a_narrow_terminal_gets_lines_instead_of_a_table(cli: Cli) -> None:
    wide, narrow = (cli("options", "caching", env={"COLUMNS": columns}).stdout for columns in ("200", "40"))
    assert narrow.split() != wide.split()
    assert len(narrow.splitlines()) < 60
    assert "max_split_size_mb = " in narrow


def test_unknown_allocator(cli: Cli) -> None:
    assert_refused(cli("options", "slab"), "unknown allocator 'slab'")


def test_the_table_names_options(cli: Cli) -> None:
    done = cli("options", "caching")
    assert done.returncode == 0
    assert "max_split_size_mb" in done.stdout
    assert "expandable" not in done.stdout.splitlines()[0]
