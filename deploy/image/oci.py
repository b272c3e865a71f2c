"""Writes the image as an OCI archive. Nothing in it depends on when, where and by whom it was built."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from deploy.image.commands import run

USER = "65532:65532"
FOLDER = "/tmp"
ENTRYPOINT = "tenon"
COMMAND = "worker"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",  # or a module that somebody puts into the writable /tmp would be imported
}
MODIFIED = int(datetime(1980, 1, 1, tzinfo=UTC).timestamp())
"""The time of every file: a layer whose files did not change has the digest that it had in the image before."""
CONTAINERD_NAME = "io.containerd.image.name"
REFERENCE = "org.opencontainers.image.ref.name"
INDEX = "application/vnd.oci.image.index.v1+json"


def pack(folder: Path, file: Path) -> int:
    """Write a folder as a tar file in the order of names, and return the bytes that its files have."""
    size = 0
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            entry = plain(archive.gettarinfo(path, arcname=str(path.relative_to(folder))))
            size += entry.size
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return size


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove what the machine gave to a file: its owner, time and the mode that this user's umask left."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = MODIFIED
    if entry.isdir():
        entry.mode = 0o1777 if entry.name == "tmp" else 0o755
    elif entry.issym():
        entry.mode = 0o777
    else:
        entry.mode = 0o755 if entry.mode & stat.S_IXUSR else 0o644
    return entry


def write(
    layout: Path,
    layers: Mapping[str, Path],
    *,
    name: str,
    tag: str,
    architecture: str,
    created: int,
    labels: Mapping[str, str],
) -> str:
    """Write the image that has these layers, from the lowest on, to a folder. Returns the digest of its manifest."""
    image = f"{layout}:{tag}"
    time = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", image)
    for layer, file in layers.items():
        history = (f"--history.created={time}", f"--history.created_by={layer}")
        run("umoci", "raw", "add-layer", "--image", image, *history, file)
    of_the_image = (f"--created={time}", f"--architecture={architecture}", *_settings(labels))
    run("umoci", "config", "--image", image, "--no-history", *of_the_image)
    run("umoci", "gc", "--layout", layout)
    return _name_for_containerd(layout / "index.json", f"{name}:{tag}")


def join(layouts: Mapping[str, Path], joined: Path, *, name: str, tag: str) -> str:
    """Write the images of some architectures as one image to a folder. Returns the digest of its index.

    A registry and containerd choose from the index by architecture, so a chart can name one digest for all.
    """
    manifests = []
    for architecture, layout in layouts.items():
        shutil.copytree(layout / "blobs", joined / "blobs", dirs_exist_ok=True)
        shutil.copyfile(layout / "oci-layout", joined / "oci-layout")
        (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
        described = {key: manifest[key] for key in ("mediaType", "digest", "size")}
        manifests.append(described | {"platform": {"architecture": architecture, "os": "linux"}})
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    content = json.dumps(index, sort_keys=True).encode()
    checksum = hashlib.sha256(content).hexdigest()
    (joined / "blobs/sha256" / checksum).write_bytes(content)
    names = {REFERENCE: tag, CONTAINERD_NAME: f"{name}:{tag}"}
    entry = {"mediaType": INDEX, "digest": f"sha256:{checksum}", "size": len(content), "annotations": names}
    (joined / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}, sort_keys=True))
    return f"sha256:{checksum}"


def _settings(labels: Mapping[str, str]) -> list[str]:
    plain_settings = {"user": USER, "workingdir": FOLDER, "entrypoint": ENTRYPOINT, "cmd": COMMAND}
    return [
        *(f"--config.{setting}={value}" for setting, value in plain_settings.items()),
        *(f"--config.env={variable}={value}" for variable, value in ENVIRONMENT.items()),
        *(f"--config.label={label}={value}" for label, value in sorted(labels.items())),
    ]


def _name_for_containerd(file: Path, name: str) -> str:
    """Add the name under which containerd imports the image, and return the digest of its manifest."""
    index = json.loads(file.read_text())
    (manifest,) = index["manifests"]
    manifest["annotations"][CONTAINERD_NAME] = name
    file.write_text(json.dumps(index, sort_keys=True))
    return str(manifest["digest"])
