"""The bridge: GMLake as a C++ class of PyTorch's own, compiled on this machine, for what only C++ can ask or answer.

bridge.cpp   the class
blocks.h     how a block is made and deleted
figures.h    figures, segments and annotations in PyTorch's structures
cuda/        the few names of CUDA that PyTorch's headers mention; no toolkit is needed
core/        headers of our own library (put here when gmlake is installed)
building     compiles it once and finds it again

Without it everything works that docs/pytorch.md lists for the plain route.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from gmlake.torch.bridge.building import Built, build, turned_off

_outcome = Built(None, "GMLake does not serve this process")


def install(torch: Any) -> bool:
    """Put the bridge in the place of PyTorch's allocator; False: it cannot be had, and nothing has changed.

    Raises RuntimeError where PyTorch does not take another allocator any more.
    """
    global _outcome
    _outcome = turned_off() or build(Path(torch.__file__).parent)
    if _outcome.library is None:
        return False
    try:
        library = ctypes.CDLL(str(_outcome.library))
    except OSError as error:
        _outcome = Built(None, f"it does not load: {error}")
        return False
    library.gmlake_bridge_install.restype = ctypes.c_char_p
    failure = library.gmlake_bridge_install()
    if failure is not None:
        raise RuntimeError(failure.decode(errors="replace"))
    return True


def is_active() -> bool:
    """Whether PyTorch reaches GMLake over the bridge in this process."""
    return _outcome.library is not None


def why_not() -> str:
    """Why the bridge is not active, in a few words; empty if it is."""
    return _outcome.reason
