"""Shared by the commands of `tenon sandbox`: the state folder, the output formats, and how an error is printed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

StateDir = Annotated[
    Path | None,
    typer.Option("--state", metavar="FOLDER", help="State folder.  [default: $TENON_SANDBOX_DIR or ./.sandbox]"),
]

FAILED = 2


class Output(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"


def fail(error: Exception) -> typer.Exit:
    """Print an error as one sentence, and return the exit to raise."""
    Console(stderr=True).print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(FAILED)
