"""GMLake: a GPU memory allocator that stitches scattered memory, and the tools to see what it saves.

    import gmlake; gmlake.enable()      before the first use of the GPU; or GMLAKE=1 in the environment
    gmlake.stats()                      its figures
    gmlake.summary()                    a page about them
    with gmlake.record("run.gmt"): ...  keep a trace
    gmlake.report.write(...)            a page that shows one

Importing it is cheap: what these need comes with the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmlake import report
    from gmlake.torch.activation import disable, enable, is_enabled
    from gmlake.torch.looking import stats, summary
    from gmlake.torch.recording import record

__version__: str
__all__ = ["__version__", "disable", "enable", "is_enabled", "record", "report", "stats", "summary"]

_HOMES = {
    "disable": "activation",
    "enable": "activation",
    "is_enabled": "activation",
    "record": "recording",
    "stats": "looking",
    "summary": "looking",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        import importlib.metadata

        return importlib.metadata.version("gmlake")
    if name == "report":
        return importlib.import_module("gmlake.report")
    if name not in _HOMES:
        raise AttributeError(f"module 'gmlake' has no attribute '{name}'")
    return getattr(importlib.import_module(f"gmlake.torch.{_HOMES[name]}"), name)
