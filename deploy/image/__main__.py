"""Builds the image of the commit that is checked out: ``python -m deploy.image FOLDER``.

It writes ``tenon.tar`` (an OCI archive) and ``sbom.cdx.json`` (what is in it), for this machine's architecture. The
environment variable UV names the program uv. SOURCES names a file with apt sources to use in place of this machine's,
such as those of a snapshot.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from deploy.image import oci, sbom
from deploy.image.build import NAME, Commit, build, native
from deploy.image.commands import ImageError, require

ARCHIVE = "tenon.tar"
COMPONENTS = "sbom.cdx.json"


def write(output: Path, work: Path) -> None:
    """Build the image in the folder ``work`` and write it to the folder ``output``."""
    commit = Commit.checked_out()
    image = build(commit, native(), work / "image")
    sbom.write(image.components, output / COMPONENTS)
    oci.pack(image.layout, work / ARCHIVE)
    (work / ARCHIVE).replace(output / ARCHIVE)
    unpacked = ", ".join(f"{name} {megabytes(size)}" for name, size in image.sizes.items())
    print(f"{output / ARCHIVE}: {NAME}:{commit.version} {image.digest}")
    print(
        f"{megabytes((output / ARCHIVE).stat().st_size)}; unpacked {megabytes(sum(image.sizes.values()))}: {unpacked}"
    )
    print(f"{output / COMPONENTS}: {len(image.components['components']) + 1} packages of Debian and Python")


def megabytes(size: int) -> str:
    """Return a number of bytes as a person reads it."""
    return f"{size / 1e6:.0f} MB"


def main() -> int:
    """Build the image. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the files")
    output = parser.parse_args().folder.resolve()
    output.mkdir(parents=True, exist_ok=True)
    try:
        require()
        with tempfile.TemporaryDirectory(prefix="work-", dir=output) as work:
            write(output, Path(work))
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
