"""What `import torch` runs of us: the entry point of the group `torch.backends`.

Without GMLAKE and without a run of gmlake around the process it returns at once, and importing it imports nothing.
"""

from __future__ import annotations

import os


def activate() -> None:
    """Start what the environment asks for: the allocator, then the parts that watch."""
    wanted = os.environ.get("GMLAKE")
    if wanted:
        from gmlake.torch import activation

        activation.enable_from_environment(wanted)
    text = os.environ.get("GMLAKE_EMULATE") or os.environ.get("GMLAKE_RECORD")
    if text:
        from gmlake.emulator import inside

        inside.start(text)
