"""Errors a person sees: one sentence that names the value and what was expected, never a traceback."""

from __future__ import annotations

from gmlake._core import BrokenInvariant, DriverError, Error, InvalidArgument, OutOfMemory

__all__ = ["BrokenInvariant", "CannotEnable", "DriverError", "Error", "InvalidArgument", "OutOfMemory", "UserError"]


class UserError(Exception):
    """A mistake in what the user gave us; the message is the whole story."""


class CannotEnable(UserError, RuntimeError):
    """GMLake cannot serve this process; the message says why and what to do."""
