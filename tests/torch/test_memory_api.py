"""torch.cuda.memory and torch.accelerator.memory: the same program under both allocators gives the same answers."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Run

Answers = tuple[dict[str, Any], dict[str, Any]]
MIB = 1 << 20


@pytest.fixture(scope="module")
def theirs(native: Run) -> dict[str, Any]:
    found: dict[str, Any] = native("memory_api.py")
    return found


@pytest.fixture(scope="module")
def answers(either: Run, theirs: dict[str, Any]) -> Answers:
    return either("memory_api.py"), theirs


# Questions whose answers must be the same to the byte.
EQUAL = [
    "before",
    "by number",
    "after resetting sums",
    "summary",
    "abbreviated",
    "empty tensor",
    "fraction",
    "a quarter",
    "enough again",
    "wrong fraction",
    "raw",
    "raw gone",
    "processes",
    "host",
    "accelerator stats",
    "accelerator memory_allocated",
    "accelerator max_memory_allocated",
]


@pytest.mark.parametrize("question", EQUAL)
def test_the_same_answer(answers: Answers, question: str) -> None:
    ours, theirs = answers
    assert ours[question] == theirs[question]


@pytest.mark.parametrize(
    "question",
    ["after three", "after a free", "after resetting peaks", "after emptying", "accelerator emptied"],
)
def test_never_more_than_pytorch(answers: Answers, question: str) -> None:
    ours, theirs = answers
    assert set(ours[question]) == set(theirs[question])
    for name, value in ours[question].items():
        assert 0 < value <= theirs[question][name], name


def test_the_same_names_in_the_statistics(answers: Answers) -> None:
    ours, theirs = answers
    assert list(ours["flat"]) == list(theirs["flat"])
    assert len(ours["flat"]) > 100
    for name, value in theirs["nested"].items():
        assert type(ours["nested"][name]) is type(value), name
        if isinstance(value, dict):
            assert set(ours["nested"][name]) == set(value), name


def test_what_the_client_asked_for_is_counted_alike(answers: Answers) -> None:
    ours, theirs = answers
    for name, value in theirs["flat"].items():
        if name.startswith(("requested_bytes", "allocation.", "active.")):
            assert ours["flat"][name] == value, name


def test_the_device_agrees(answers: Answers) -> None:
    """What is reserved is what the device has lost."""
    ours, _ = answers
    free, total = ours["free and total"]
    assert total - free == ours["after emptying"]["memory_reserved"]


def test_out_of_memory_is_the_same_error(answers: Answers) -> None:
    ours, theirs = answers
    assert ours["too much"] == theirs["too much"]
    assert ours["too much"].startswith("OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 GiB")


def test_a_device_that_is_not_there(answers: Answers) -> None:
    for found in answers:
        assert found["unknown device"].startswith("RuntimeError: Invalid device argument")
