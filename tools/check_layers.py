"""Checks the shape of the core: a folder includes only folders below it, and no source file is too long.

The order is written here and nowhere else. A folder may include itself and any folder before it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LAYERS = ("base", "driver", "watch", "memory", "order", "pool", "allocator", "baselines", "replay", "edge")
LONGEST = 500
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)
ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print every violation; the exit code says whether there were any."""
    complaints = [*upward_includes(), *long_files()]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


def upward_includes() -> list[str]:
    """Includes of a folder that stands above the including one."""
    core = ROOT / "core"
    order = ", ".join(LAYERS)
    complaints = []
    for path in sorted([*core.rglob("*.h"), *core.rglob("*.cpp")]):
        layer = path.relative_to(core).parts[0]
        if layer not in LAYERS:
            complaints.append(f"core/{layer}: has no place in the order of folders ({order})")
            continue
        name = path.relative_to(ROOT)
        for included in INCLUDE.findall(path.read_text()):
            below = included.split("/")[0]
            if below not in LAYERS:
                complaints.append(f"{name}: {included} does not begin with a folder of core/")
            elif LAYERS.index(below) > LAYERS.index(layer):
                complaints.append(f"{name}: {layer} must not use {below} ({included})")
    return complaints


def long_files() -> list[str]:
    """Source files beyond the cap."""
    complaints = []
    for folder in ("core", "emulator", "src", "tests", "bench", "tools"):
        for suffix in (".h", ".cpp", ".py", ".pyi"):
            for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
                lines = len(path.read_text().splitlines())
                if lines > LONGEST:
                    complaints.append(f"{path.relative_to(ROOT)}: {lines} lines; at most {LONGEST}")
    return complaints


if __name__ == "__main__":
    sys.exit(main())
