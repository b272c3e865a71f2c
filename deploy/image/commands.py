"""Runs the programs of the build, so that a failure says which of them failed and why."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tenon.errors import TenonError

DEBIAN_PACKAGES = {"apt-get": "apt", "dpkg-deb": "dpkg", "git": "git", "mmdebstrap": "mmdebstrap", "umoci": "umoci"}
"""The Debian package of each program that the build runs, besides uv."""


class ImageError(TenonError):
    """The image cannot be built. The message says what to do."""


def require(programs: Mapping[str, str] = DEBIAN_PACKAGES) -> None:
    """Check that programs are installed. ``programs`` gives the Debian package of each.

    Raises:
        ImageError: some are not. The message has the command that installs their packages.
    """
    missing = {program: package for program, package in sorted(programs.items()) if shutil.which(program) is None}
    if missing:
        names = ", ".join(f"`{program}`" for program in missing)
        packages = " ".join(sorted(set(missing.values())))
        raise ImageError(
            f"The image needs {names}: run `apt-get install --no-install-recommends {packages}` as root on Debian."
        )


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program and return its output. ``env`` is added to this process's environment.

    Raises:
        ImageError: the program failed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, env=os.environ | (env or {}), cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()
        raise ImageError(f"`{' '.join(words)}` failed with status {done.returncode}: {reason}")
    return done.stdout
