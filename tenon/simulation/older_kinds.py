"""Replaces objects from before v1 with their v1 equivalents, before anything else reads the input."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.apis import labels
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.legacy.conversion import Converted, name_of
from tenon.apis.legacy.global_settings import convert_settings
from tenon.apis.legacy.pods_and_nodes import convert_node, convert_pod
from tenon.manifests.batch_conversion import convert_batch
from tenon.simulation.objects import Found, Objects

WITH_TEMPLATES = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")


def convert(objects: Objects) -> None:
    """Replace older objects with v1 ones. Faults go to ``objects.faults`` and changes to the notes."""
    older = list(_take_older(objects))
    if not older:
        return
    _settings(objects, older)
    today = [found for kind in ("NodePool", "EC2NodeClass") for found in objects.of(kind)]
    for number, made in convert_batch([found.body for found in (*older, *today)]).items():
        if number < len(older):
            _add(objects, older[number], made)
        else:
            (body,) = made.manifests  # a v1 class that received an older pool's kubelet settings
            found = today[number - len(older)]
            objects.by_kind[found.kind][found.key] = Found(found.kind, body, found.source)
    _pods_and_nodes(objects)


def _take_older(objects: Objects) -> Iterable[Found]:
    """Remove and yield the objects that are older than v1."""
    for kind in ("ConfigMap", "AWSNodeTemplate", "EC2NodeClass", "Provisioner", "NodePool", "Machine", "NodeClaim"):
        known = objects.by_kind.get(kind, {})
        for found in list(known.values()):
            if not str(found.body.get("apiVersion")).endswith("/v1"):
                yield known.pop(found.key)


def _settings(objects: Objects, older: Iterable[Found]) -> None:
    for found in older:
        if found.kind == "ConfigMap":
            settings = convert_settings(found.body)
            objects.faults += [found.fault(problem.path, problem.sentence) for problem in settings.problems]
            for note in settings.notes:
                objects.note(f"{found.subject}: {note}")


def _add(objects: Objects, found: Found, made: Converted) -> None:
    """Add the v1 objects that replace an older object."""
    objects.faults += [found.fault(problem.path, problem.sentence) for problem in made.problems]
    if made.manifests:
        names = ", ".join(f"{body['kind']} {name_of(body)}" for body in made.manifests)
        objects.note(f"{found.subject} ({found.body['apiVersion']}) is read as {names} of v1")
    for note in made.notes:
        objects.note(f"{found.subject}: {note}")
    for body in made.manifests:
        now = Found(body["kind"], body, found.source)
        known = objects.by_kind.setdefault(now.kind, {})
        if now.key in known and not _replaces(found, known[now.key]):
            where = known[now.key].source
            objects.faults.append(found.fault("", f"becomes {now.subject}, which also exists, in {where}: keep one"))
        else:
            known[now.key] = now


def _replaces(found: Found, present: Found) -> bool:
    """True if a worker created the present object from this older one. In that case the file takes precedence."""
    made_from = field_at(present.body, "metadata", "annotations", labels.MADE_FROM)
    return str(made_from).partition(":")[0] == found.subject


def _pods_and_nodes(objects: Objects) -> None:
    """Rename old labels, annotations and taints on pods and nodes."""
    for found in list(objects.of("Node")):
        _replace(objects, found, *convert_node(found.body))
    for found in list(objects.of("Pod")):
        _replace(objects, found, *convert_pod(found.body))
    for found in list(objects.of("PodTemplate")):
        template = found.body.get("template")
        if isinstance(template, dict):
            pods, notes = convert_pod(template)
            _replace(objects, found, {**found.body, "template": pods}, notes)
    for kind in WITH_TEMPLATES:
        for found in list(objects.of(kind)):
            spec = found.body.get("spec")
            template = spec.get("template") if isinstance(spec, dict) else None
            if isinstance(spec, dict) and isinstance(template, dict):
                pods, notes = convert_pod(template)
                _replace(objects, found, {**found.body, "spec": {**spec, "template": pods}}, notes)


def _replace(objects: Objects, found: Found, body: JsonObject, notes: list[str]) -> None:
    if notes:
        objects.by_kind[found.kind][found.key] = Found(found.kind, body, found.source)
    for note in notes:
        objects.note(f"{found.kind}: {note}")
