"""Runs commands of ``tenon`` in this process, as a user would in a shell.

A command is built once for all tests. Building it takes longer than many of them run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from unittest.mock import patch

from typer import Typer, testing
from typer.main import get_command

built = cache(get_command)


def invoke(app: Typer, arguments: Sequence[str], stdin: str | bytes | None = None) -> testing.Result:
    """Run a command; an exception in it fails the test."""
    with patch.object(testing, "_get_command", built):
        result = testing.CliRunner().invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
