"""What `import torch` runs of us: the entry point of the group `torch.backends`.

Without a run of gmlake around the process it returns at once, and importing it imports nothing.
"""

from __future__ import annotations

import os


def activate() -> None:
    """Start the parts that the run asked for."""
    text = os.environ.get("GMLAKE_EMULATE") or os.environ.get("GMLAKE_RECORD")
    if not text:
        return
    from gmlake.emulator import inside

    inside.start(text)
