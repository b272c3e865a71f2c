"""Images for the node without a registry: the one of pause, and archives that users import."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from sandbox.kubelet import programs
from sandbox.layout import Layout
from sandbox.status import Process

NAMESPACE = "k8s.io"
"""Where containerd keeps the images that a kubelet sees."""
PAUSE_IMAGE = "localhost/pause:sandbox"
CONTAINERD_NAME = "io.containerd.image.name"
"""The annotation with which an OCI archive names an image for containerd."""
SOCKET = "/run/containerd/containerd.sock"
"""Where containerd listens, in the node's mount namespace, where /run is its own."""


def write_pause(program: Path, archive: Path) -> None:
    """Write the image that holds the namespaces of each pod, as an archive in Docker's format."""
    layer = _tar({"pause": (program.read_bytes(), 0o755)})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config), "manifest.json": json.dumps(manifest)}
    contents = {name: (text.encode(), 0o644) for name, text in files.items()}
    archive.write_bytes(_tar(contents | {"layer.tar": (layer, 0o644)}))


def name_in(archive: Path) -> str:
    """The name under which containerd imports the image of an OCI archive.

    Raises:
        ValueError: the archive names no image, or more than one.
    """
    try:
        with tarfile.open(archive) as opened:
            index = opened.extractfile("index.json")
            manifests = json.load(index)["manifests"] if index else []
        (name,) = {manifest["annotations"][CONTAINERD_NAME] for manifest in manifests}
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise ValueError(f"{archive} is not an OCI archive with one named image: build it with `make image`") from error
    return str(name)


def load(layout: Layout, archive: Path) -> None:
    """Import an image into the running node.

    Raises:
        OSError: there is no node, or it did not take the image.
    """
    process = Process.model_validate_json(layout.node_process.read_text())
    if not process.alive():
        raise OSError(f"the node of the sandbox in {layout.root} does not run")
    enter = ("nsenter", f"--target={process.pid}", "--mount", "--net", "--pid")
    command = [*enter, *import_command(programs.ensure().ctr, SOCKET, archive.absolute())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"containerd did not import {archive}: {done.stderr.strip()}")


def import_command(ctr: Path, socket: str, archive: Path) -> list[str]:
    """The command that imports an image into the containerd that listens on ``socket``."""
    return [str(ctr), "--address", socket, "--namespace", NAMESPACE, "images", "import", str(archive)]


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()
