"""Builds the image of one architecture from a commit. It runs no program of that architecture, so any machine can."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from deploy.image import debian, oci, sbom, wheels
from deploy.image.commands import ImageError, run

REPOSITORY = Path(__file__).parents[2]
NAME = "localhost/tenon"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""What wheels call the architectures of Debian that images are for."""
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """The commit that is checked out. What is built has its files, whatever the working tree has."""

    name: str
    time: int
    version: str

    @classmethod
    def checked_out(cls) -> Self:
        """Return the commit, and say so if the working tree differs from it."""
        name, time = run("git", "log", "-1", "--format=%H %ct", cwd=REPOSITORY).split()
        if run("git", "status", "--porcelain", cwd=REPOSITORY):
            print(f"The working tree has changes. The build is of the commit {name[:12]} and does not have them.")
        (version,) = VERSION.findall(run("git", "show", f"{name}:tenon/__init__.py", cwd=REPOSITORY))
        return cls(name, int(time), version)


@dataclass(frozen=True)
class Image:
    """An image, as a layout of OCI in a folder, and what is in it."""

    layout: Path
    digest: str
    base: Path
    """The files of Debian's packages, with their interpreter."""
    components: dict[str, Any]
    sizes: dict[str, int]
    """The bytes of the files in each layer."""


def program_uv() -> str:
    """Return the path of uv.

    Raises:
        ImageError: there is none.
    """
    uv = shutil.which(os.environ.get("UV", "uv"))
    if uv is None:
        raise ImageError("The image needs uv: run `make image`, which installs it, or name the program in UV.")
    return uv


def native() -> str:
    """Return Debian's name for this machine's architecture."""
    return run("dpkg", "--print-architecture").strip()


def build(commit: Commit, architecture: str, work: Path, interpreter: Path | None = None) -> Image:
    """Build the image in a new folder.

    Args:
        interpreter: the `Image.base` of this machine's architecture, if the image is for another one.
    """
    uv, machine = program_uv(), MACHINES[architecture]
    source, base, dependencies, project = (work / name for name in ("source", "base", "dependencies", "tenon"))
    work.mkdir(parents=True)
    sources = os.environ.get("SOURCES")
    debian.fetch(work / "packages", [sources] if sources else debian.sources(), architecture)
    packages = debian.unpack(work / "packages", base)
    debian.reduce(base)
    wheels.checkout(REPOSITORY, commit.name, source)
    wheels.install_dependencies(uv, source, dependencies, machine)
    wheels.install_project(uv, source, project, machine)
    sites = [root / wheels.SITE for root in (dependencies, project)]
    document = sbom.python_packages(sites, source / "pyproject.toml", commit.time)
    wheels.compile_byte_code(interpreter or base, base, f"usr/lib/python{debian.PYTHON}")
    wheels.compile_byte_code(interpreter or base, dependencies, wheels.SITE)
    wheels.compile_byte_code(interpreter or base, project, wheels.SITE)

    layers = {root.name: work / f"{root.name}.tar" for root in (base, dependencies, project)}
    sizes = {name: oci.pack(work / name, file) for name, file in layers.items()}
    labels = {"org.opencontainers.image.revision": commit.name, "org.opencontainers.image.version": commit.version}
    layout = work / "oci"
    digest = oci.write(
        layout,
        layers,
        name=NAME,
        tag=commit.version,
        architecture=architecture,
        created=commit.time,
        labels=labels,
    )
    return Image(layout, digest, base, sbom.with_debian(document, packages), sizes)
