"""What all verbs share."""

from __future__ import annotations

from gmlake.commands import COMMANDS

from .conftest import Cli, assert_refused


def test_no_verb_shows_the_verbs(cli: Cli) -> None:
    done = cli()
    assert done.returncode == 2
    for command in COMMANDS:
        assert command.NAME in done.stderr


def test_unknown_verb(cli: Cli) -> None:
    assert_refused(cli("replya"), "replya")


def test_every_verb_explains_itself(cli: Cli) -> None:
    for command in COMMANDS:
        done = cli(command.NAME, "--help")
        assert done.returncode == 0
        assert f"\n  gmlake {command.NAME} " in done.stdout  # an example
