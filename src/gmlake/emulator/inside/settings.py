"""What the run told its processes, from the environment (written by gmlake.emulator.launch)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Solo:
    """This process stands for one rank of a larger job."""

    world_size: int
    rank: int


@dataclass(frozen=True)
class Settings:
    """The settings of the run."""

    session: Path  # where processes leave what they found
    device: str | None = None  # the emulated card; None: a real one
    compute: bool = False
    solo: Solo | None = None
    record: str | None = None  # the trace that the user asked for; processes write into the session's folder
    stacks: bool = False

    @staticmethod
    def parse(text: str) -> Settings:
        """From the JSON of GMLAKE_EMULATE or GMLAKE_RECORD."""
        found = json.loads(text)
        solo = found.get("solo")
        return Settings(
            session=Path(found["session"]),
            device=found.get("device"),
            compute=bool(found.get("compute")),
            solo=None if solo is None else Solo(int(solo["world_size"]), int(solo["rank"])),
            record=found.get("record"),
            stacks=bool(found.get("stacks")),
        )
