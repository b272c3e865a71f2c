"""Asks at the terminal whether a command that changes a cluster may begin."""

from __future__ import annotations

import typer

from cli.nodes.requests import is_interactive
from tenon.errors import TenonError


def confirm_beginning(refusal: type[TenonError], *, yes: bool) -> None:
    """Ask whether to begin, unless ``yes`` says so already.

    Raises:
        TenonError: an error of the type ``refusal``: the answer is no, or no one is there to give it.
    """
    if yes:
        return
    if not is_interactive():
        raise refusal("Nothing was changed: add --yes, because no one is at a terminal to confirm it.")
    if not typer.confirm("Begin?", default=False):
        raise refusal("Nothing was changed.")
