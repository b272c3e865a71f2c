"""Images that differ from the built one: in their tag, or in the order of a node's steps."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.image import oci
from deploy.image.commands import run
from deploy.image.debian import PYTHON
from deploy.image.wheels import SITE, unpack
from sandbox.kubelet import images
from tests.faults.drills.test_rolling import other_version

START, END = "workflows/nodeclaim.py", "tenon/node/leaving_stages.py"
"""Modules with the order of steps. `other_version` changes the second one."""
ORIGINAL = "    async def _live(self, begin: NodeClaimInput) -> NodeClaimResult:\n"
CHANGED = f"{ORIGINAL}        if begin.state is None:\n            await workflow.sleep(0.1)\n"


def with_tag(archive: Path, tag: str, folder: Path) -> Path:
    """The same image under another tag, in a new folder."""
    layout = folder / "oci"
    unpack(archive, layout)
    return _packed(layout, tag, images.name_in(archive))


def with_extra_steps(archive: Path, tag: str, folder: Path) -> Path:
    """The image with one layer more and under another tag: a node takes a step more when it starts, and when it leaves.

    So without worker versioning, no run of a young node could pass from one image to the other.
    """
    code = other_version(folder / "code")
    workflow = code / START
    workflow.write_text(workflow.read_text().replace(ORIGINAL, CHANGED))
    assert CHANGED in workflow.read_text()
    for name in (START, END):
        module = folder / "layer" / SITE / "tenon_autoscaler/packages" / name
        byte_code = module.parent / "__pycache__" / f".wh.{module.stem}.cpython-{PYTHON.replace('.', '')}.pyc"
        byte_code.parent.mkdir(parents=True)
        byte_code.touch()  # removes that of the image, because Python would not look whether it is still true
        module.write_text((code / name).read_text())
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
