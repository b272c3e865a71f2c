"""Images that differ from the built one: in their tag, or in the order of a node's steps."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.image import oci
from deploy.image.commands import run
from deploy.image.debian import PYTHON
from deploy.image.wheels import SITE, unpack
from sandbox.kubelet import images
from tests.faults.test_rolling import other_version

MODULE = "tenon/node/leaving_stages.py"
"""The module that `other_version` changes."""


def with_tag(archive: Path, tag: str, folder: Path) -> Path:
    """The same image under another tag, in a new folder."""
    layout = folder / "oci"
    unpack(archive, layout)
    return _packed(layout, tag, images.name_in(archive))


def with_extra_step(archive: Path, tag: str, folder: Path) -> Path:
    """The image with one layer more, in which a leaving node takes one step more, under another tag."""
    code = other_version(folder / "code") / MODULE
    module = folder / "layer" / SITE / "tenon_autoscaler/packages" / MODULE
    module.parent.mkdir(parents=True)
    module.write_text(code.read_text())
    byte_code = module.parent / "__pycache__" / f".wh.{module.stem}.cpython-{PYTHON.replace('.', '')}.pyc"
    byte_code.parent.mkdir()
    byte_code.touch()  # the image has none of this module: Python would not look whether it is still that of the code
    oci.pack(folder / "layer", folder / "layer.tar")
    layout = folder / "oci"
    unpack(archive, layout)
    name = images.name_in(archive)
    run("umoci", "raw", "add-layer", "--image", f"{layout}:{name.rpartition(':')[2]}", folder / "layer.tar")
    return _packed(layout, tag, name)


def _packed(layout: Path, tag: str, name: str) -> Path:
    index = json.loads((layout / "index.json").read_text())
    (image,) = index["manifests"]
    repository = name.rpartition(":")[0]
    image["annotations"] = {oci.REFERENCE: tag, oci.CONTAINERD_NAME: f"{repository}:{tag}"}
    (layout / "index.json").write_text(json.dumps(index))
    archive = layout.with_name(f"{tag}.tar")
    oci.pack(layout, archive)
    return archive
