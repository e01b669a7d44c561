"""Programs that are run on the CPU and on the emulated device: what they return must agree bit for bit.

Started by its test under `gmlake run --emulate ... --compute`; writes a JSON file with what differed, by name.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

Results = list[Any]
PROGRAMS: dict[str, Callable[[str], Results]] = {}


def program(function: Callable[[str], Results]) -> Callable[[str], Results]:
    """Enter a function of the device's name into the list."""
    PROGRAMS[function.__name__] = function
    return function


def train(
    model: torch.nn.Module,
    batches: list[Any],
    loss: Callable[[torch.nn.Module, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer | None = None,
) -> Results:
    """Train, and return losses, the norm of the gradients, and all parameters and buffers at the end."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=3e-3)
    found: Results = []
    for batch in batches:
        value = loss(model, batch)
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found += [value.item(), norm]
    return [*found, *(tensor.detach() for tensor in model.state_dict().values())]


def difference(expected: Any, found: Any) -> str | None:
    """In which way two results differ, bit by bit; NaN equals NaN."""
    if not isinstance(expected, torch.Tensor):
        return None if expected == found or expected != expected else f"{expected} on the CPU, {found} on the device"
    found = found.cpu()
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{tuple(expected.shape)} {expected.dtype} on the CPU, {tuple(found.shape)} {found.dtype} on the device"
    if torch.equal(torch.nan_to_num(expected), torch.nan_to_num(found)):
        return None
    return f"differs by {(expected.double() - found.double()).abs().max().item()}"


def compare(name: str) -> str:
    """Run one program on both; an empty text is agreement."""
    results = []
    try:
        for device in ("cpu", "cuda"):
            torch.manual_seed(7)
            results.append(PROGRAMS[name](device))
        expected, found = results
    except Exception:
        return traceback.format_exc()
    if len(expected) != len(found):
        return f"{len(expected)} results on the CPU, {len(found)} on the device"
    return "; ".join(differences(expected, found))


def differences(expected: Results, found: Results) -> Iterator[str]:
    """All of them, with their places."""
    for index, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        how = difference(ours, theirs)
        if how:
            yield f"result {index}: {how}"


def main() -> None:
    """Run the programs of the modules that are named, and write what differed to the file that is named first."""
    warnings.simplefilter("ignore")
    sys.modules["tests.emulator.computed"] = sys.modules["__main__"]
    for module in sys.argv[2:]:
        importlib.import_module(f"tests.emulator.{module}")
    Path(sys.argv[1]).write_text(json.dumps({name: compare(name) for name in PROGRAMS}))


if __name__ == "__main__":
    main()
