"""The traces that come with the package, by name."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

_SUFFIX = ".gmt"


def bundled_names() -> list[str]:
    """The names of the bundled traces, sorted."""
    return sorted(path.stem for path in _directory().glob(f"*{_SUFFIX}"))


def bundled_path(name: str) -> Path:
    """Where the bundled trace of that name lies."""
    return _directory() / f"{name}{_SUFFIX}"


def _directory() -> Path:
    return Path(str(resources.files("gmlake"))) / "traces"
