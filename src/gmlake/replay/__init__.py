"""Replay: feed a trace to allocators on the simulated driver and compare what they needed."""

from gmlake.replay.engine import ALLOCATORS, Settings, replay
from gmlake.replay.result import Result
from gmlake.replay.sweep import sweep

__all__ = ["ALLOCATORS", "Result", "Settings", "replay", "sweep"]
