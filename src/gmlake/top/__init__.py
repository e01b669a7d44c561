"""The GMLake processes of this user on this machine, seen from outside, at no cost to them.

A process that uses GMLake keeps its counters in shared memory (core/watch/board.h). Here they are found and read.
"""

from gmlake.top.boards import Broken, Process, look

__all__ = ["Broken", "Process", "look"]
