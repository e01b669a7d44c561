"""The traces that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

_DIRECTORY = Path(__file__).parent.parent / "traces"
_SUFFIX = ".gmt"


def bundled_names() -> list[str]:
    """The names of the bundled traces, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob(f"*{_SUFFIX}"))


def bundled_path(name: str) -> Path:
    """Where the bundled trace of that name lies."""
    return _DIRECTORY / f"{name}{_SUFFIX}"
