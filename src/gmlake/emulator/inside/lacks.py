"""What the emulated device has not, told to PyTorch, so that it takes its other ways instead of failing.

These are settings that a script could make itself; one that turns them on again gets the error that is due.
"""

from __future__ import annotations

import torch

from gmlake.emulator.inside.settings import Settings


def start(settings: Settings) -> None:
    """Switch off what has no stand-in."""
    # cuDNN plans its work in graphs of its own; convolutions, norms and attention have native ways as well.
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
