"""Replay: feed a trace to allocators on the simulated driver and compare what they needed."""

from gmlake.replay.engine import Settings, replay
from gmlake.replay.result import Result
from gmlake.replay.sweep import sweep

__all__ = ["Result", "Settings", "replay", "sweep"]
