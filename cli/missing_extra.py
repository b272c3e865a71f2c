"""Commands of the sandbox where the extra `sandbox` is not installed: the image of a worker leaves it out."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand

PACKAGES = ("sandbox", "psutil", "moto", "flask", "flask_cors", "werkzeug", "jsonpath_ng")
"""The sandbox's own package and those that the extra installs, by the names they are imported by."""
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def missing() -> str:
    """The first package that the sandbox lacks; empty if it lacks none."""
    return next((name for name in PACKAGES if not _is_installed(name)), "")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # another program has put something else in its place
        return False


def stand_in(command: str, package: str) -> TyperCommand:
    """A command that takes any arguments and says in one sentence what to install."""

    def refuse(**_: Any) -> None:
        typer.echo(
            f"tenon {command} needs the extra `sandbox`, which is not installed here ({package} is missing): "
            "clone Tenon's repository and run `make setup` there, or `pip install '.[sandbox]'`.",
            err=True,
        )
        raise typer.Exit(2)

    help_ = "Not installed here: needs the extra `sandbox`."
    return TyperCommand(command, callback=refuse, help=help_, context_settings=ANYTHING, add_help_option=False)
