"""Errors a person sees: one sentence that names the value and what was expected, never a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in what the user gave us; the message is the whole story."""
