"""Runs ``tenon convert`` and ``tenon validate`` in this process, as a user would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer import Typer

import cli.convert
import cli.validate
from tests.command_line import invoke


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The answer of ``-o json``."""
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def lines(self) -> list[str]:
        """The lines on standard error."""
        return self.err.splitlines()


def convert(*arguments: str, stdin: str | bytes | None = None) -> Answer:
    """Run ``tenon convert``; an exception in it fails the test."""
    return _run(cli.convert.app, arguments, stdin)


def validate(*arguments: str, stdin: str | bytes | None = None) -> Answer:
    """Run ``tenon validate``; an exception in it fails the test."""
    return _run(cli.validate.app, arguments, stdin)


def _run(app: Typer, arguments: tuple[str, ...], stdin: str | bytes | None) -> Answer:
    result = invoke(app, arguments, stdin)
    # as bytes: as text, CRLF would come back as LF
    return Answer(result.exit_code, result.stdout_bytes.decode(), result.stderr_bytes.decode())
