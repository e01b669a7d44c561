"""What an offloaded job does on the host, left out: it concerns no GPU and would need more memory than there is.

Full fine-tuning of a 13B model on four ranks keeps 45 GB of each rank's state on the host. The device only sees the
copies to and from there, and these are made. Values are not real anyway while a workload is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

LARGE = 1 << 20  # bytes; smaller tensors may decide something
WRITING = ("copy_", "zero_", "fill_.Scalar", "mul_.Tensor")
_kept: list[Any] = []  # a registration ends with its library


class HostAdam(torch.optim.Optimizer):  # type: ignore[misc]
    """In the place of an Adam on the host (DeepSpeedCPUAdam): its state would never be on the device."""

    def __init__(self, parameters: Iterable[Any]) -> None:
        """Take over the parameters."""
        super().__init__(parameters, {"lr": 1e-4})

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Do nothing."""


def skip_host_work() -> None:
    """From now on nothing is written to large tensors on the host by these operations."""
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    for name in WRITING:
        library.impl(name, _unless_large(name), "CPU", with_keyset=True)


def _unless_large(name: str) -> Callable[..., Any]:
    kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
    first_is_tensor = name in ("copy_", "mul_.Tensor")

    def run(keys: Any, target: Any, *args: Any, **options: Any) -> Any:
        if target.numel() * target.element_size() >= LARGE:
            return target
        if first_is_tensor and not isinstance(args[0], torch.Tensor):  # PyTorch hands a number on as it is
            args = (torch.tensor(args[0], dtype=target.dtype), *args[1:])
        return kernel.call_boxed(keys, target, *args, **options)

    return run
