"""Reads documents into validated objects, so that faults are found before planning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.legacy.conversion import Converted, name_of
from tenon.apis.legacy.pods_and_nodes import convert_node, convert_pod
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.validation import FieldError, parse
from tenon.manifests.faults import ManifestError, Source
from tenon.manifests.yaml_scalars import UnreadableDocumentError
from tenon.manifests.yaml_values import read_documents
from tenon.schedule.desired import desired
from tenon.simulation import manifests
from tenon.simulation.defaults import BEGINNING
from tenon.simulation.objects import Objects, SourcedObject
from tenon.simulation.workloads import WORKLOADS, add_buffer_pods, expand

WITH_TEMPLATES = (*WORKLOADS, "DaemonSet")


def convert(objects: Objects) -> None:
    """Replace older objects with v1 ones. Faults go to ``objects.faults`` and changes to the notes."""
    older = list(_take_older(objects))
    if not older:
        return
    from tenon.manifests.batch_conversion import convert_batch  # loads the models of the versions before v1

    _settings(objects, older)
    today = [item for kind in ("NodePool", "EC2NodeClass") for item in objects.of(kind)]
    for number, result in convert_batch([item.body for item in (*older, *today)]).items():
        if number < len(older):
            _add(objects, older[number], result)
        else:
            (body,) = result.manifests  # a v1 class that received an older pool's kubelet settings
            item = today[number - len(older)]
            objects.by_kind[item.kind][item.key] = SourcedObject(item.kind, body, item.source)
    _pods_and_nodes(objects)


def _take_older(objects: Objects) -> Iterable[SourcedObject]:
    """Remove and yield the objects that are older than v1."""
    for kind in ("ConfigMap", "AWSNodeTemplate", "EC2NodeClass", "Provisioner", "NodePool", "Machine", "NodeClaim"):
        items = objects.by_kind.get(kind, {})
        for item in list(items.values()):
            if not str(item.body.get("apiVersion")).endswith("/v1"):
                yield items.pop(item.key)


def _settings(objects: Objects, older: Iterable[SourcedObject]) -> None:
    from tenon.apis.legacy.global_settings import convert_settings  # as above

    for item in older:
        if item.kind == "ConfigMap":
            settings = convert_settings(item.body)
            objects.faults += [item.fault(problem.path, problem.sentence) for problem in settings.problems]
            for note in settings.notes:
                objects.note(f"{item.subject}: {note}")


def _add(objects: Objects, item: SourcedObject, result: Converted) -> None:
    """Add the v1 objects that replace an older object."""
    objects.faults += [item.fault(problem.path, problem.sentence) for problem in result.problems]
    if result.manifests:
        names = ", ".join(f"{body['kind']} {name_of(body)}" for body in result.manifests)
        objects.note(f"{item.subject} ({item.body['apiVersion']}) is read as {names} of v1")
    for note in result.notes:
        objects.note(f"{item.subject}: {note}")
    for body in result.manifests:
        now = SourcedObject(body["kind"], body, item.source)
        items = objects.by_kind.setdefault(now.kind, {})
        if now.key in items and not _replaces(item, items[now.key]):
            where = items[now.key].source
            objects.faults.append(item.fault("", f"becomes {now.subject}, which also exists, in {where}: keep one"))
        else:
            items[now.key] = now


def _replaces(item: SourcedObject, present: SourcedObject) -> bool:
    """True if a worker created the present object from this older one. In that case the file takes precedence."""
    made_from = field_at(present.body, "metadata", "annotations", labels.MADE_FROM)
    return str(made_from).partition(":")[0] == item.subject


def _pods_and_nodes(objects: Objects) -> None:
    """Rename old labels, annotations and taints on pods and nodes."""
    for item in list(objects.of("Node")):
        _replace(objects, item, *convert_node(item.body))
    for item in list(objects.of("Pod")):
        _replace(objects, item, *convert_pod(item.body))
    for item in list(objects.of("PodTemplate")):
        template = item.body.get("template")
        if isinstance(template, dict):
            pods, notes = convert_pod(template)
            _replace(objects, item, {**item.body, "template": pods}, notes)
    for kind in WITH_TEMPLATES:
        for item in list(objects.of(kind)):
            spec = item.body.get("spec")
            template = spec.get("template") if isinstance(spec, dict) else None
            if isinstance(spec, dict) and isinstance(template, dict):
                pods, notes = convert_pod(template)
                _replace(objects, item, {**item.body, "spec": {**spec, "template": pods}}, notes)


def _replace(objects: Objects, item: SourcedObject, body: JsonObject, notes: list[str]) -> None:
    if notes:
        objects.by_kind[item.kind][item.key] = SourcedObject(item.kind, body, item.source)
    for note in notes:
        objects.note(f"{item.kind}: {note}")


OWN_KINDS: dict[str, type[ApiModel]] = {
    "NodePool": NodePool,
    "EC2NodeClass": EC2NodeClass,
    "NodeClaim": NodeClaim,
    "NodeOverlay": NodeOverlay,
    "CapacityBuffer": CapacityBuffer,
    "NodeSchedule": NodeSchedule,
}


def read_text(objects: Objects, file: str, text: str) -> None:
    """Add the documents of one file."""
    is_held = False
    for number, value in read_documents(text):
        is_held = is_held or value is not None
        source = Source(file, number)
        if isinstance(value, UnreadableDocumentError):
            objects.faults.append(ManifestError(source, str(value)))
        elif value is not None:
            objects.add(value, source)
    if not is_held:
        objects.note(f"{file} holds no object")


def finish(objects: Objects, instant: datetime) -> None:
    """Convert every object to v1, validate it and expand workloads.

    The objects are usable if ``objects.faults`` is empty. ``instant``: the time of the simulation.
    """
    convert(objects)
    for item in objects.all():
        objects.faults += [item.fault(problem.path, problem.sentence) for problem in _problems(item)]
    if not objects.faults:
        expand(objects)
        add_buffer_pods(objects, _scheduled_replicas(objects, instant))


def _scheduled_replicas(objects: Objects, instant: datetime) -> Mapping[tuple[str, str], int]:
    """The replicas of CapacityBuffers, by namespace and name, that NodeSchedules ask for at the simulation's time.

    Manifests of which none has been in a cluster have no time. Schedules are left out then, with a note.
    """
    if instant == BEGINNING:
        for item in objects.by_kind.pop("NodeSchedule", {}).values():
            objects.note(f"{item.subject} is left out, because the input has no time: state one with --now")
    schedules = [NodeSchedule.model_validate(item.body) for item in objects.of("NodeSchedule")]
    return desired(schedules, instant).buffers


def _problems(item: SourcedObject) -> Iterable[FieldError]:
    model = OWN_KINDS.get(item.kind)
    if model is None or item.kind == "NodeClaim":
        yield from manifests.problems(item.kind, item.body)
    if model is not None:
        yield from parse(model, item.body)[1]
