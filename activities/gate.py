"""The gate of a process: every call that changes something passes it, immediately before it is sent.

A call may wait long for its turn: in a rate limiter, for a thread, for credentials. Whether the process may still act
is therefore decided after these waits and not when the work starts. Work in threads cannot be canceled, so canceling a
worker's activities alone would not stop the calls that wait.

The gate closes while another controller leads, and while it is not known whether one does
(`worker/runtime/election/leader_conflict.py`). A call that is stopped fails with `StandingByError`. Nothing was sent,
so its activity is safe to repeat.
"""

from __future__ import annotations

from tenon.errors import TenonError


class StandingByError(TenonError):
    """The process may not change anything now. The call was not sent and may be repeated later."""


class Gate:
    """Open, or closed for a reason. Thread-safe: each method reads or writes one attribute."""

    def __init__(self) -> None:
        self.why = ""
        """Why the gate is closed. Empty if it is open."""

    def close(self, why: str) -> None:
        """Stop all calls that are not sent yet."""
        self.why = why

    def open(self) -> None:
        """Let calls pass."""
        self.why = ""
