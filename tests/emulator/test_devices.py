"""The catalogue of cards."""

from __future__ import annotations

import pytest

from gmlake.emulator.devices import CATALOGUE, device_keys, find_device
from gmlake.errors import UserError

GIB = 1 << 30
PROMISED = ["a100-40g", "a100-80g", "h100-80g", "h200-141g", "b200-192g", "l40s-48g", "rtx4090-24g", "t4-16g"]
# As torch prints it when memory runs out: "GPU 0 has a total capacity of 79.25 GiB".
CAPACITY = {"a100-40g": 39.39, "a100-80g": 79.25, "h100-80g": 79.19, "h200-141g": 139.80, "b200-192g": 178.35}


def test_all_promised_cards_are_there() -> None:
    assert device_keys() == PROMISED


@pytest.mark.parametrize("device", CATALOGUE, ids=lambda device: device.key)
def test_cuda_reports_a_little_less_than_the_name_says(device: object) -> None:
    card = find_device(getattr(device, "key", ""))
    named = int(card.key.rsplit("-", 1)[1].removesuffix("g"))
    assert 0.9 * named * 10**9 < card.memory < named * GIB
    assert card.memory % (64 << 10) == 0
    assert card.seen


def test_capacities_are_those_that_torch_prints() -> None:
    assert {key: round(find_device(key).memory / GIB, 2) for key in CAPACITY} == CAPACITY


def test_case_and_memory() -> None:
    card = find_device(" A100-80G ")
    assert (card.name, card.capability, card.multiprocessors) == ("NVIDIA A100-SXM4-80GB", (8, 0), 108)
    assert card.with_memory(None) is card
    assert card.with_memory(24 * GIB).memory == 24 * GIB


@pytest.mark.parametrize(
    ("wrong", "close"), [("a100-80", "a100-80g"), ("h100", "h100-80g"), ("rtx4090", "rtx4090-24g"), ("t4", "t4-16g")]
)
def test_an_unknown_name_gets_the_closest(wrong: str, close: str) -> None:
    with pytest.raises(UserError) as caught:
        find_device(wrong)
    assert f"none is called '{wrong}'" in str(caught.value)
    assert f"did you mean '{close}'?" in str(caught.value)
    assert all(key in str(caught.value) for key in PROMISED)


def test_nonsense_gets_no_guess() -> None:
    with pytest.raises(UserError, match=r"none is called 'zzzz'\.$"):
        find_device("zzzz")
