"""What goes wrong with a trace: a file that cannot be read, or events that contradict each other."""

from __future__ import annotations

from gmlake.errors import UserError


class TraceError(UserError):
    """A trace that cannot be read, written or believed; the message is one sentence."""
