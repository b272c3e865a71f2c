"""Replaces the sandbox's commands if the extra `sandbox` is not installed, as in the worker's image."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand

PACKAGES = ("sandbox", "psutil", "moto", "flask", "flask_cors", "werkzeug", "jsonpath_ng")
"""Import names of the sandbox's own package and of the packages that the extra installs."""
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def missing() -> str:
    """Return the first missing package of the sandbox, or an empty string."""
    return next((name for name in PACKAGES if not _is_installed(name)), "")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # another module took the name
        return False


def stand_in(command: str, package: str) -> TyperCommand:
    """Return a command that accepts any arguments and prints what to install."""

    def refuse(**_: Any) -> None:
        typer.echo(
            f"tenon {command} needs the extra `sandbox`, which is not installed here ({package} is missing): "
            "clone Tenon's repository and run `make setup` there, or `pip install '.[sandbox]'`.",
            err=True,
        )
        raise typer.Exit(2)

    help_ = "Not installed here: needs the extra `sandbox`."
    return TyperCommand(command, callback=refuse, help=help_, context_settings=ANYTHING, add_help_option=False)
