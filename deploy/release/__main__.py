"""Writes the files of a release to a folder: ``python -m deploy.release FOLDER``.

With ``--compare`` it builds them once more and says which of them differ from those in the folder. RELEASE_KEY names
the file of the secret key that signs them; UV and SOURCES are those of ``python -m deploy.image``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.image import oci, sbom, wheels
from deploy.image.build import MACHINES, NAME, REPOSITORY, Commit, Image, build, native, program_uv
from deploy.image.commands import ImageError, require, run
from deploy.release import charts, signing

WHOLE = (".",)
"""The sdist has every file of the commit."""


def write(output: Path, work: Path) -> Commit:
    """Build everything in the folder ``work`` and write it to the empty folder ``output``, but for the signature."""
    # First, so that the person who types the key's password need not wait for a build.
    signature = signing.name_key(output)
    commit = Commit.checked_out()
    source = work / "source"
    work.mkdir()
    wheels.checkout(REPOSITORY, commit.name, source, WHOLE)
    environment = {"SOURCE_DATE_EPOCH": str(commit.time), **wheels.UV}
    run(program_uv(), "build", "--quiet", "--no-create-gitignore", "--out-dir", output, source, env=environment)
    images = build_images(commit, work)
    joined = work / "joined"
    layouts = {architecture: image.layout for architecture, image in images.items()}
    digest = oci.join(layouts, joined, name=NAME, tag=commit.version)
    oci.pack(joined, output / f"tenon-image-{commit.version}.tar")
    for architecture, image in images.items():
        sbom.write(image.components, output / f"tenon-image-{commit.version}-{architecture}.cdx.json")
    charts.pack(source / "deploy/chart", output, commit.version, digest)
    charts.pack(source / "deploy/chart-crd", output, commit.version)
    shutil.copyfile(source / "CHANGELOG.md", output / "CHANGELOG.md")
    facts = {
        "version": commit.version,
        "commit": commit.name,
        "image": f"{digest} ({', '.join(images)})",
        "signature": signature,
    }
    (output / "RELEASE.txt").write_text("".join(f"{name}: {value}\n" for name, value in facts.items()))
    sums = signing.write_sums(output)
    print((output / "RELEASE.txt").read_text() + sums.read_text(), end="")
    return commit


def build_images(commit: Commit, work: Path) -> dict[str, Image]:
    """Build the image of each architecture. The interpreter in that of this machine compiles for all."""
    own_platform = native()
    images = {own_platform: build(commit, own_platform, work / own_platform)}
    for architecture in sorted(MACHINES.keys() - {own_platform}):
        images[architecture] = build(commit, architecture, work / architecture, images[own_platform].base)
    return dict(sorted(images.items()))


def differences(first: Path, other: Path) -> list[str]:
    """Return the names of files that two releases do not share, or that differ. A signature is not compared."""
    lines = [set((folder / signing.SUMS).read_text().splitlines()) for folder in (first, other)]
    return sorted({line.split()[1] for line in lines[0] ^ lines[1]})


def main() -> int:
    """Write or compare a release. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files of the release are")
    parser.add_argument("--compare", action="store_true", help="build again, and compare with the files in the folder")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    try:
        require()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="release-", dir=folder.parent) as temporary:
            fresh = Path(temporary) / "files"
            fresh.mkdir()
            commit = write(fresh, Path(temporary) / "work")
            if arguments.compare:
                if differing := differences(folder, fresh):
                    raise ImageError(f"Two builds of the commit differ in {', '.join(differing)}.")
                print(f"Two builds of the commit have the same files: {folder}.")
            else:
                signing.sign(fresh / signing.SUMS, commit.version)
                shutil.rmtree(folder, ignore_errors=True)
                fresh.replace(folder)
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
