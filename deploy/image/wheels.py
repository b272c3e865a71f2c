"""The Python packages of the image: the dependencies from ``uv.lock``, Tenon's own packages, and their byte code."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from deploy.image.commands import ImageError, run
from deploy.image.debian import PYTHON

SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
SOURCES = (
    *("LICENSE", "README.md", "pyproject.toml", "uv.lock"),
    *("activities", "cli", "tenon", "tenon_autoscaler", "worker", "workflows"),
)
"""What the wheel is built from. The package `sandbox` is not among them."""
COMMAND = f"""#!/usr/bin/python{PYTHON}
import sys

from tenon_autoscaler.__main__ import main

sys.exit(main())
"""
UV = {"UV_LINK_MODE": "copy", "UV_PYTHON_DOWNLOADS": "never", "UV_COMPILE_BYTECODE": "0"}
OF_THE_BUILD = ("bin", ".lock", "*.dist-info/direct_url.json", "*.dist-info/uv_cache.json", "*.dist-info/RECORD")
"""What an installation writes that says how it was made. RECORD would name files that are not there."""


def checkout(repository: Path, commit: str, folder: Path, paths: Sequence[str] = SOURCES) -> None:
    """Write files of a commit, those that the wheel is built from, into a folder, whatever the working tree has."""
    archive = folder.with_suffix(".tar")
    run("git", "archive", f"--output={archive}", commit, *paths, cwd=repository)
    unpack(archive, folder)
    archive.unlink()


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a new folder by ``tar``. Python 3.11 has no safe extraction before 3.11.4."""
    folder.mkdir(parents=True)
    run("tar", "--extract", f"--file={archive}", f"--directory={folder}")


def install_dependencies(uv: str, source: Path, root: Path, machine: str) -> None:
    """Install the locked dependencies of the worker for the image's interpreter, which does not run."""
    requirements = source.with_suffix(".txt")
    export = ("--frozen", "--extra=worker", "--no-default-groups", "--no-emit-project", "--format=requirements.txt")
    run(uv, "export", "--quiet", *export, "--output-file", requirements, "--project", source, env=UV)
    _install(uv, root, machine, "--require-hashes", "--only-binary=:all:", "--requirements", requirements)


def install_project(uv: str, source: Path, root: Path, machine: str) -> None:
    """Build the project's wheel and install it with its command."""
    dist = source.with_suffix(".dist")
    run(uv, "build", "--quiet", "--wheel", "--out-dir", dist, source, env=UV)
    (wheel,) = dist.glob("*.whl")
    _install(uv, root, machine, wheel)
    command = root / "usr/local/bin/tenon"
    command.parent.mkdir(parents=True)
    command.write_text(COMMAND)
    command.chmod(0o755)


def _install(uv: str, root: Path, machine: str, *arguments: str | Path) -> None:
    target = root / SITE
    target.mkdir(parents=True)
    platform = ("--python-version", PYTHON, "--python-platform", f"{machine}-manylinux_2_36")
    run(uv, "pip", "install", "--quiet", "--no-deps", *platform, "--target", target, *arguments, env=UV)
    for pattern in OF_THE_BUILD:
        for path in target.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def compile_byte_code(base: Path, root: Path, folder: str) -> None:
    """Write byte code for the modules in a folder below ``root``, by the interpreter in ``base``, which runs here.

    Byte code is the same on all architectures, so ``root`` may be for another one.

    The root file system of a container is read-only, so without it each process would compile every module again. The
    worker's processes use byte code without docstrings, the commands use that with them. The byte code names no time.
    One process compiles in the order of names, because the bytes depend on the order.
    """
    # Not the link in lib64: it leads to the loader of this machine.
    loader = next(iter(sorted(base.glob("lib/*-linux-gnu/ld-linux-*"))), None)
    if loader is None:
        raise ImageError(f"{base} has no loader for programs: the package libc6 is incomplete.")
    libraries = [*base.glob("lib/*-linux-gnu"), *base.glob("usr/lib/*-linux-gnu")]
    interpreter = (loader, "--library-path", ":".join(map(str, libraries)), base / f"usr/bin/python{PYTHON}", "-S")
    levels = ("-o", "0", "-o", "2")
    options = ("-q", "-f", *levels, "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/")
    # Byte code that the interpreter itself writes for what it imports names this folder and the time.
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    environment = {"PYTHONHOME": str(base / "usr"), **own}
    run(*interpreter, "-m", "compileall", *options, root / folder, env=environment)
