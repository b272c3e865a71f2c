"""Expands workloads into their pods, named ``<name>-<i>``."""

from __future__ import annotations

from collections.abc import Iterator

from tenon.apis.json_object import JsonObject
from tenon.simulation.admission import replica_labels, workload_labels
from tenon.simulation.objects import Found, Objects
from tenon.simulation.volumes import add_template_claims

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
MAX_PODS = 200_000
"""Maximum number of pods in one simulation, more than any cluster holds."""


def expand(objects: Objects) -> None:
    """Add the pods of all workloads to ``objects``, which must be free of faults."""
    pods = objects.by_kind.setdefault("Pod", {})
    owned = _owners(objects)
    for kind in WORKLOADS:
        for workload in objects.of(kind):
            count = replicas(workload)
            if len(pods) + count > MAX_PODS:
                objects.faults.append(
                    workload.fault(
                        "spec.parallelism" if kind == "Job" else "spec.replicas",
                        f"{count} pods are too many: a simulation takes {MAX_PODS}",
                    )
                )
                continue
            if count and (kind, workload.key) in owned:
                objects.note(
                    f"{workload.subject} is expanded although its objects are in the input too: leave one of them out"
                )
            for pod in _pods(workload, count):
                add_template_claims(objects, workload, pod)
                if pod.key in pods:
                    other = pods[pod.key]
                    objects.faults.append(
                        workload.fault("", f"makes Pod {pod.key}, which {other.source} makes too: rename one of them")
                    )
                    break
                pods[pod.key] = pod


def replicas(workload: Found) -> int:
    """Number of pods that a workload requests; defaults to 1."""
    stated = workload.body["spec"].get("parallelism" if workload.kind == "Job" else "replicas")
    return 1 if stated is None else int(stated)


def _pods(workload: Found, count: int) -> Iterator[Found]:
    template = workload.body["spec"]["template"]
    stated = template.get("metadata") or {}
    identity = workload.body["metadata"].get("uid") or f"{workload.kind}/{workload.key}"
    owner = {**_owner(workload), "uid": identity, "controller": True}
    width = len(str(max(0, count - 1)))
    labels = {**workload_labels(workload.kind, workload.name, template), **(stated.get("labels") or {})}
    for number in range(count):
        added = replica_labels(workload.kind, workload.name, number)
        body: JsonObject = {
            "metadata": {
                "name": f"{workload.name}-{number}",
                "namespace": workload.namespace,
                "uid": f"{identity}/{number:0{width}d}",
                "labels": {**labels, **added} if added else labels,
                "annotations": stated.get("annotations") or {},
                "creationTimestamp": workload.body["metadata"].get("creationTimestamp"),
                "ownerReferences": [owner],
            },
            "spec": {name: value for name, value in template["spec"].items() if name != "nodeName"},
        }
        yield Found("Pod", body, workload.source)


def _owner(workload: Found) -> JsonObject:
    """The pods' owner reference. A Deployment's pods belong to the ReplicaSet that its controller creates."""
    if workload.kind == "Deployment":
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set(workload)["metadata"]["name"]}
    version = workload.body.get("apiVersion") or "apps/v1"
    return {"apiVersion": version, "kind": workload.kind, "name": workload.name}


def replica_set(deployment: Found) -> JsonObject:
    """The ReplicaSet of a Deployment's current template, limited to its name and selector."""
    template = deployment.body["spec"]["template"]
    added = workload_labels(deployment.kind, deployment.name, template)
    selector = deployment.body["spec"].get("selector") or {}
    exact = {**(selector.get("matchLabels") or {}), **added}
    return {
        "metadata": {"name": "-".join((deployment.name, *added.values())), "namespace": deployment.namespace},
        "spec": {"selector": {**selector, "matchLabels": exact}},
    }


def _owners(objects: Objects) -> set[tuple[str, str]]:
    """Kind and key of each workload that owns an object of the input."""
    return {
        (str(owner.get("kind")), f"{found.namespace}/{owner.get('name')}")
        for kind in ("Pod", *WORKLOADS)
        for found in objects.of(kind)
        for owner in found.body["metadata"].get("ownerReferences") or ()
    }
