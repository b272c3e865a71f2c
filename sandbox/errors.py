"""What goes wrong with a sandbox as a whole."""

from __future__ import annotations

from tenon.errors import TenonError


class SandboxError(TenonError):
    """The sandbox did not start, is not running, or did not stop. The message is a sentence."""
