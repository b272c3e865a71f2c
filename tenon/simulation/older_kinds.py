"""Objects of Karpenter before v1 in an input: what they are now takes their place before anything is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenon.apis.legacy.awsnodetemplate import Defaults, convert_template
from tenon.apis.legacy.conversion import Converted, name_of
from tenon.apis.legacy.global_settings import convert_settings
from tenon.apis.legacy.kubelets import class_of, move_kubelets
from tenon.apis.legacy.pods_and_nodes import convert_node, convert_pod
from tenon.apis.legacy.v1alpha5 import convert_machine, convert_provisioner
from tenon.apis.legacy.v1beta1_nodeclass import convert_nodeclass
from tenon.apis.legacy.v1beta1_nodepool import convert_nodeclaim, convert_nodepool
from tenon.simulation.objects import Body, Found, Objects

WITH_TEMPLATES = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")

Conversion = Callable[[Body], Converted]


def convert(objects: Objects) -> None:
    """Replace older objects by v1 ones; what is wrong in them goes to ``objects.faults``, what changed to its notes."""
    older = list(_take_older(objects))
    if not older:
        return
    defaults = _settings(objects, older)
    expiry: dict[str, str] = {}
    converted: set[str] = set()
    conversions: dict[str, Conversion] = {
        "AWSNodeTemplate": lambda body: convert_template(body, defaults),
        "EC2NodeClass": convert_nodeclass,
        "Provisioner": lambda body: convert_provisioner(body, defaults),
        "NodePool": convert_nodepool,
        "Machine": lambda body: convert_machine(body, expiry),
        "NodeClaim": lambda body: convert_nodeclaim(body, expiry),
    }
    for kind, conversion in conversions.items():
        for found in older:
            if found.kind == kind:
                for body in _add(objects, found, conversion(found.body)):
                    if body["kind"] == "NodePool":
                        converted.add(name_of(body))
                        expiry[name_of(body)] = body["spec"]["template"]["spec"]["expireAfter"]
    _move_kubelets(objects, converted)
    _pods_and_nodes(objects)


def _take_older(objects: Objects) -> Iterable[Found]:
    """The objects that are not of v1, taken out."""
    for kind in ("ConfigMap", "AWSNodeTemplate", "EC2NodeClass", "Provisioner", "NodePool", "Machine", "NodeClaim"):
        known = objects.by_kind.get(kind, {})
        for found in list(known.values()):
            if not str(found.body.get("apiVersion")).endswith("/v1"):
                yield known.pop(found.key)


def _settings(objects: Objects, older: Iterable[Found]) -> Defaults:
    defaults = Defaults()
    for found in older:
        if found.kind == "ConfigMap":
            settings = convert_settings(found.body)
            objects.faults += [found.fault(problem.path, problem.sentence) for problem in settings.problems]
            for note in settings.notes:
                objects.note(f"{found.subject}: {note}")
            defaults = Defaults(
                settings.defaults.instance_profile or defaults.instance_profile,
                settings.defaults.cluster or defaults.cluster,
            )
    return defaults


def _add(objects: Objects, found: Found, made: Converted) -> Iterable[Body]:
    """Put in what an object became."""
    objects.faults += [found.fault(problem.path, problem.sentence) for problem in made.problems]
    if made.manifests:
        names = ", ".join(f"{body['kind']} {name_of(body)}" for body in made.manifests)
        objects.note(f"{found.subject} ({found.body['apiVersion']}) is read as {names} of v1")
    for note in made.notes:
        objects.note(f"{found.subject}: {note}")
    for body in made.manifests:
        now = Found(body["kind"], body, found.source)
        known = objects.by_kind.setdefault(now.kind, {})
        if now.key in known:
            where = known[now.key].source
            objects.faults.append(found.fault("", f"becomes {now.subject}, which is there too, in {where}: keep one"))
        else:
            known[now.key] = now
    return made.manifests


def _move_kubelets(objects: Objects, converted: set[str]) -> None:
    pools = {found.name: found.body for found in objects.of("NodePool") if class_of(found.body)}
    classes = {
        found.name: found.body for found in objects.of("EC2NodeClass") if isinstance(found.body.get("spec"), dict)
    }
    moved = move_kubelets(pools, classes, converted)
    for name, note in moved.notes.items():
        objects.note(f"NodePool {name}: {note}")
    for kind, bodies in (("NodePool", moved.pools), ("EC2NodeClass", moved.classes)):
        known = objects.by_kind.setdefault(kind, {})
        for name, body in bodies.items():
            source = (known.get(name) or objects.by_kind["NodePool"][_pool_of(name, moved.pools)]).source
            known[name] = Found(kind, body, source)


def _pool_of(class_name: str, pools: dict[str, Body]) -> str:
    """The pool that a class was made for."""
    return next(name for name, pool in pools.items() if class_of(pool) == class_name)


def _pods_and_nodes(objects: Objects) -> None:
    """What pods and nodes of that time carry, under the names that count now."""
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


def _replace(objects: Objects, found: Found, body: Body, notes: list[str]) -> None:
    if notes:
        objects.by_kind[found.kind][found.key] = Found(found.kind, body, found.source)
    for note in notes:
        objects.note(f"{found.kind}: {note}")
