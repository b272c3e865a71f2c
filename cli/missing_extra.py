"""Replaces the commands whose extra is not installed, as those of the sandbox in the worker's image."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand

DISTRIBUTION = "tenon-autoscaler"
"""What `pip` calls Tenon. The name `tenon` belongs to another project."""
PACKAGES = {
    "worker": (
        "temporalio",
        "kubernetes",
        "boto3",
        "aiohttp",
        "cryptography",
        "opentelemetry",
        "pythonjsonlogger",
        "icalendar",
        "recurring_ical_events",
    ),
    "sandbox": ("sandbox", "psutil", "moto", "flask", "flask_cors", "werkzeug", "jsonpath_ng"),
}
"""Import names of the packages that each extra installs, and of the sandbox's own."""
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def missing(extra: str) -> str:
    """Return the first missing package of an extra, or an empty string."""
    return next((name for name in PACKAGES[extra] if not _is_installed(name)), "")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # another module took the name
        return False


def refuse(command: str, extra: str, package: str) -> None:
    """Print what to install, and exit."""
    typer.echo(
        f"{command} needs the extra `{extra}`, which is not installed here ({package} is missing): "
        f"pip install '{DISTRIBUTION}[{extra}]'",
        err=True,
    )
    raise typer.Exit(2)


def stand_in(command: str, extra: str, package: str) -> TyperCommand:
    """Return a command that accepts any arguments and prints what to install."""

    def refusing(**_: Any) -> None:
        refuse(f"tenon {command}", extra, package)

    help_ = f"Not installed here: needs the extra `{extra}`."
    return TyperCommand(command, callback=refusing, help=help_, context_settings=ANYTHING, add_help_option=False)
