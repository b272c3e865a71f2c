"""Builds the image of the commit that is checked out: ``python -m deploy.image FOLDER``.

It writes ``tenon.tar`` (an OCI archive) and ``sbom.cdx.json`` (what is in it). With ``--previous`` it builds the image
that upgrades come from, unless it is there. The environment variable UV names the program uv. SOURCES names a file with
apt sources to use in place of this machine's, such as those of a snapshot.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from deploy.image import debian, oci, previous, sbom, wheels
from deploy.image.commands import ImageError, require, run

REPOSITORY = Path(__file__).parents[2]
NAME = "localhost/tenon"
ARCHIVE = "tenon.tar"


def build(output: Path, work: Path, earlier: str = "") -> None:
    """Build the image in the folder ``work`` and write it to the folder ``output``.

    The image has the commit that is checked out, or the ``earlier`` one. Its tag then names the version and the commit.
    """
    uv = shutil.which(os.environ.get("UV", "uv"))
    if uv is None:
        raise ImageError("The image needs uv: run `make image`, which installs it, or name the program in UV.")
    commit, created = run("git", "log", "-1", "--format=%H %ct", earlier or "HEAD", cwd=REPOSITORY).split()
    if not earlier and run("git", "status", "--porcelain", cwd=REPOSITORY):
        print(f"The working tree has changes. The image is of the commit {commit[:12]} and does not have them.")
    source, base, dependencies, project = (work / name for name in ("source", "base", "dependencies", "tenon"))

    given = os.environ.get("SOURCES")
    debian.fetch(work / "packages", [given] if given else debian.sources())
    packages = debian.unpack(work / "packages", base)
    debian.reduce(base)
    wheels.checkout(REPOSITORY, commit, source)
    wheels.install_dependencies(uv, source, dependencies)
    wheels.install_project(uv, source, project)
    sites = [root / wheels.SITE for root in (dependencies, project)]
    document = sbom.python_packages(sites, source / "pyproject.toml", int(created))
    wheels.compile_byte_code(base, base, f"usr/lib/python{debian.PYTHON}")
    wheels.compile_byte_code(base, dependencies, wheels.SITE)
    wheels.compile_byte_code(base, project, wheels.SITE)

    layers = {root.name: work / f"{root.name}.tar" for root in (base, dependencies, project)}
    sizes = {name: oci.pack(work / name, file) for name, file in layers.items()}
    version = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    labels = {"org.opencontainers.image.revision": commit, "org.opencontainers.image.version": version}
    tag = f"{version}-{commit[:12]}" if earlier else version
    archive = work / ARCHIVE
    digest = oci.write(archive, layers, name=NAME, tag=tag, created=int(created), labels=labels)
    output.mkdir(parents=True, exist_ok=True)
    sbom.write(sbom.with_debian(document, packages), output / "sbom.cdx.json")
    archive.replace(output / archive.name)

    unpacked = ", ".join(f"{name} {megabytes(size)}" for name, size in sizes.items())
    print(f"{output / archive.name}: {NAME}:{tag} {digest}")
    print(f"{megabytes((output / archive.name).stat().st_size)}; unpacked {megabytes(sum(sizes.values()))}: {unpacked}")
    print(f"{output / 'sbom.cdx.json'}: {len(packages)} packages of Debian, {len(document['components'])} of Python")


def megabytes(size: int) -> str:
    """Return a number of bytes as a person reads it."""
    return f"{size / 1e6:.0f} MB"


def main() -> int:
    """Build the image. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the files")
    parser.add_argument("--previous", action="store_true", help="the image that upgrades come from, unless it is there")
    given = parser.parse_args()
    output = given.folder.resolve()
    if given.previous:
        output = previous.folder(output)
        if (output / ARCHIVE).exists():
            return 0
    output.mkdir(parents=True, exist_ok=True)
    try:
        require()
        with tempfile.TemporaryDirectory(prefix="work-", dir=output) as work:
            build(output, Path(work), previous.COMMIT if given.previous else "")
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
