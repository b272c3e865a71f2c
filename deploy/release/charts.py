"""Packs a chart as `helm package` does, but with the same bytes each time and the digest of the release's image."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

from deploy.image.commands import ImageError
from deploy.image.oci import plain

NAME = re.compile(r"^name: (.+)$", re.MULTILINE)
NO_DIGEST = '    digest: ""\n'
"""The line of values.yaml that says which digest the image has."""


def pack(chart: Path, folder: Path, version: str, digest: str = "") -> Path:
    """Write the archive of a chart to a folder, and return its path.

    Args:
        digest: of the image, for the values of the chart. Empty for a chart without an image.

    Raises:
        ImageError: the values have no place for a digest, or more than one.
    """
    name = NAME.findall((chart / "Chart.yaml").read_text())[0]
    archive = folder / f"{name}-{version}.tgz"
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        for path in _files(chart):
            content = path.read_bytes()
            if digest and path == chart / "values.yaml":
                content = with_digest(content.decode(), digest).encode()
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(chart)}")
            entry.mode, entry.size = 0o644, len(content)
            written.addfile(plain(entry), io.BytesIO(content))
    return archive


def with_digest(values: str, digest: str) -> str:
    """Return the values with the digest of the image."""
    if values.count(NO_DIGEST) != 1:
        raise ImageError(f"The values of the chart must have the line `{NO_DIGEST.strip()}` once, for the image.")
    return values.replace(NO_DIGEST, f'    digest: "{digest}"\n')


def _files(folder: Path) -> list[Path]:
    """Return the files of a chart. Its folders may be links, as that of the CRDs is, which `rglob` does not follow."""
    paths = sorted(folder.iterdir())
    return [file for path in paths for file in (_files(path) if path.is_dir() else [path])]
