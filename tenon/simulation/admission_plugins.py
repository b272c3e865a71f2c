"""Applies RuntimeClasses and LimitRanges to pods, as the API server does when it creates them.

A pod of a cluster has gone through this already. Pods of files and of workloads have not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tenon.apis.json_object import JsonObject
from tenon.kube.requirements import hint
from tenon.simulation.objects import Objects, SourcedObject

_CONTAINERS = ("containers", "initContainers")


class Admission:
    """What the API server's admission does to new pods, given the objects of an input."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._classes = {runtime_class.name: runtime_class.body for runtime_class in objects.of("RuntimeClass")}
        self._defaults: dict[str, dict[str, Any]] = {}
        for runtime_class in sorted(objects.of("LimitRange"), key=lambda runtime_class: runtime_class.key):
            self._defaults[runtime_class.namespace] = _defaults(runtime_class.body) | self._defaults.get(
                runtime_class.namespace, {}
            )

    def admit(self, pod: SourcedObject) -> None:
        """Change a pod that no API server has seen. A pod that it would refuse is a fault."""
        pod.body["spec"] = self._admit(pod, pod.body["spec"], "spec")

    def admitted(self, workload: SourcedObject) -> JsonObject:
        """Return the spec of a workload's new pods."""
        return self._admit(workload, workload.body["spec"]["template"]["spec"], "spec.template.spec")

    def admit_daemon(self, daemon: SourcedObject) -> None:
        """Give the template of a DaemonSet what RuntimeClasses add to its pods.

        The DaemonSet's controller reads the template to decide on which nodes its pods run, so tolerations that a
        RuntimeClass adds let them run on no further node. LimitRanges are applied with the rest of the cluster.
        """
        template = daemon.body["spec"]["template"]
        spec = template["spec"]
        if name := spec.get("runtimeClassName"):
            admitted = self._with_runtime_class(daemon, spec, str(name), "spec.template.spec")
            own = {"tolerations": spec["tolerations"]} if "tolerations" in spec else {}
            spec = {key: value for key, value in admitted.items() if key != "tolerations"} | own
            daemon.body["spec"] = {**daemon.body["spec"], "template": {**template, "spec": spec}}

    def _admit(self, owner: SourcedObject, spec: JsonObject, path: str) -> JsonObject:
        name = spec.get("runtimeClassName")
        if name:
            spec = self._with_runtime_class(owner, spec, str(name), path)
        return _with_requests(spec, self._defaults.get(owner.namespace, {}))

    def _with_runtime_class(self, owner: SourcedObject, spec: JsonObject, name: str, path: str) -> JsonObject:
        runtime_class = self._classes.get(name)
        if runtime_class is None:
            missing = f"{owner.subject}: RuntimeClass {name} is not in the input{hint(name, self._classes)}"
            self._objects.note(f"{missing}: its overhead and nodes are not known")
            return spec
        overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
        class_overhead = spec.get("overhead") or {}
        scheduling = runtime_class.get("scheduling") or {}
        selector, own = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
        if class_overhead and class_overhead != overhead:
            sentence = f"is not that of RuntimeClass {name}, which the API server writes there: remove it"
            self._objects.faults.append(owner.fault(f"{path}.overhead", sentence))
        for key, value in selector.items():
            if own.get(key, value) != value:
                sentence = f"{own[key]!r} contradicts RuntimeClass {name}, which asks for {value!r}"
                self._objects.faults.append(owner.fault(f"{path}.nodeSelector[{key}]", sentence))
        tolerations: Sequence[Any] = spec.get("tolerations") or ()
        added = [toleration for toleration in scheduling.get("tolerations") or () if toleration not in tolerations]
        return {
            **spec,
            **({"overhead": overhead} if overhead else {}),
            **({"nodeSelector": {**own, **selector}} if selector else {}),
            **({"tolerations": [*tolerations, *added]} if added else {}),
        }


def _defaults(limit_range: JsonObject) -> dict[str, Any]:
    """Return what a LimitRange lets containers request that state neither a request nor a limit.

    The API server derives a missing default from the limits; if two items differ, the first one wins.
    """
    defaults: dict[str, Any] = {}
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            stated_amounts: dict[str, Any] = {}
            for field in ("min", "max", "default", "defaultRequest"):
                stated_amounts |= item.get(field) or {}
            defaults = stated_amounts | defaults
    return defaults


def _with_requests(spec: JsonObject, defaults: Mapping[str, Any]) -> JsonObject:
    if not defaults:
        return spec
    return {**spec, **{field: _requesting(spec[field], defaults) for field in _CONTAINERS if spec.get(field)}}


def _requesting(containers: Iterable[JsonObject], defaults: Mapping[str, Any]) -> list[JsonObject]:
    changed = []
    for container in containers:
        needs = container.get("resources") or {}
        limits, requests = needs.get("limits") or {}, needs.get("requests") or {}
        missing = {name: amount for name, amount in defaults.items() if name not in limits and name not in requests}
        changed.append({**container, "resources": {**needs, "requests": {**requests, **missing}}})
    return changed
