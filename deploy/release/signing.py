"""Checksums of a release's files, and their signature by minisign, a Debian package.

The key is never in the repository: the environment variable RELEASE_KEY names the file that has it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from deploy.image.commands import ImageError, require

KEY = "RELEASE_KEY"
SUMS = "SHA256SUMS"
PUBLIC_KEY = "minisign.pub"
UNSIGNED = f"none: this release is unsigned, because {KEY} named no key"


def name_key(folder: Path) -> str:
    """Write the public key to a folder, and return what the release says about its signature."""
    key = os.environ.get(KEY)
    if not key:
        return UNSIGNED
    require({"minisign": "minisign"})
    _minisign("-R", "-f", "-s", key, "-p", str(folder / PUBLIC_KEY))
    comment, public = (folder / PUBLIC_KEY).read_text().splitlines()
    return f"minisign, {comment.rpartition(' ')[2]}, public key {public}"


def write_sums(folder: Path) -> Path:
    """Write the checksums of all files of a folder, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(SUMS))
    lines = [f"{checksum(path)}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))
    return folder / SUMS


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def sign(sums: Path, version: str) -> None:
    """Sign the checksums, if there is a key."""
    if key := os.environ.get(KEY):
        _minisign("-S", "-s", key, "-m", str(sums), "-t", f"Tenon {version}")


def _minisign(*arguments: str) -> None:
    """Run minisign on this terminal, where it may ask for the password of the key."""
    if subprocess.run(["minisign", *arguments], check=False).returncode:
        raise ImageError(f"minisign did not use the key that {KEY} names: {os.environ[KEY]}.")
