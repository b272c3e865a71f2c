"""Commands of the sandbox where its packages are not installed: the image of a worker leaves them out."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand

PACKAGES = ("psutil", "moto", "flask")
"""Of the dependency group `sandbox`: a sandbox cannot begin without them."""
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def missing() -> str:
    """The first package that the sandbox lacks here; empty when it lacks none."""
    return next((name for name in PACKAGES if find_spec(name) is None), "")


def stand_in(command: str, package: str) -> TyperCommand:
    """Takes any arguments, and says in one sentence what to do."""

    def told(**_: Any) -> None:
        typer.echo(
            f"tenon {command} needs the sandbox, whose packages are not installed here ({package} is missing): "
            "clone Tenon's repository and run `make setup` there.",
            err=True,
        )
        raise typer.Exit(2)

    help_ = "Not installed here: needs the packages of the sandbox."
    return TyperCommand(command, callback=told, help=help_, context_settings=ANYTHING, add_help_option=False)
