"""gmlake options, as a user runs it."""

from __future__ import annotations

import json

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


def test_a_value_that_makes_no_sense_is_refused(cli: Cli) -> None:
    first = json.loads(cli("options", "gmlake", "--json").stdout)["options"][0]
    variable = f"GMLAKE_{first['name'].upper()}"
    assert_refused(cli("options", env={variable: "nonsense!"}), variable)


def test_unknown_allocator(cli: Cli) -> None:
    assert_refused(cli("options", "slab"), "unknown allocator 'slab'")


def test_the_table_names_options(cli: Cli) -> None:
    done = cli("options", "caching")
    assert done.returncode == 0
    assert "max_split_size_mb" in done.stdout
    assert "expandable" not in done.stdout.splitlines()[0]
