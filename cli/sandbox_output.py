"""What the commands of `tenon sandbox` share: the state folder, the forms of an answer, and how an error is printed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

StateDir = Annotated[
    Path | None,
    typer.Option("--state", metavar="FOLDER", help="State folder.  [default: $TENON_SANDBOX_DIR, else ./.sandbox]"),
]

FAILED = 2


class Output(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"


def fail(error: Exception) -> typer.Exit:
    """Print an error in a sentence; the exit to raise."""
    Console(stderr=True).print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(FAILED)


def wide_console() -> Console:
    """Wide where nobody looks at the width, so that a pipe gets whole lines."""
    console = Console()
    return console if console.is_terminal else Console(width=200)
