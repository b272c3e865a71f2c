"""Reads documents into validated objects, so that faults are found before planning."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.apis.base import ApiModel
from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import FieldError, parse
from tenon.manifests.faults import ManifestError, Source
from tenon.manifests.yaml_scalars import UnreadableError
from tenon.manifests.yaml_values import read_documents
from tenon.simulation import manifests, older_kinds
from tenon.simulation.objects import Found, Objects
from tenon.simulation.workloads import add_buffer_pods, expand

OWN_KINDS: dict[str, type[ApiModel]] = {
    "NodePool": NodePool,
    "EC2NodeClass": EC2NodeClass,
    "NodeClaim": NodeClaim,
    "NodeOverlay": NodeOverlay,
    "CapacityBuffer": CapacityBuffer,
}


def read_text(objects: Objects, file: str, text: str) -> None:
    """Add the documents of one file."""
    is_held = False
    for number, value in read_documents(text):
        is_held = is_held or value is not None
        source = Source(file, number)
        if isinstance(value, UnreadableError):
            objects.faults.append(ManifestError(source, str(value)))
        elif value is not None:
            objects.add(value, source)
    if not is_held:
        objects.note(f"{file} holds no object")


def finish(objects: Objects) -> None:
    """Convert every object to v1, validate it and expand workloads.

    The objects are usable if ``objects.faults`` is empty.
    """
    older_kinds.convert(objects)
    for item in objects.all():
        objects.faults += [item.fault(problem.path, problem.sentence) for problem in _problems(item)]
    if not objects.faults:
        expand(objects)
        add_buffer_pods(objects)


def _problems(item: Found) -> Iterable[FieldError]:
    model = OWN_KINDS.get(item.kind)
    if model is None or item.kind == "NodeClaim":
        yield from manifests.problems(item.kind, item.body)
    if model is not None:
        yield from parse(model, item.body)[1]
