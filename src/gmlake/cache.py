"""Where gmlake keeps what it makes once and finds again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of this user; it need not exist yet."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The convention says that a relative path is to be ignored.
    base = Path(configured) if configured.startswith("/") else Path("~/.cache").expanduser()
    return base / "gmlake"
