"""Expands workloads and CapacityBuffers into their pods; those of a workload are named ``<name>-<i>``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tenon.apis.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer
from tenon.apis.json_object import JsonObject
from tenon.evolve import evolve
from tenon.provisioning.buffers import buffer_pod, buffer_size, unit_requests
from tenon.simulation.admission import replica_labels, workload_labels
from tenon.simulation.admission_plugins import Admission
from tenon.simulation.objects import Objects, SourcedObject
from tenon.simulation.volumes import add_template_claims

WORKLOADS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job")
_ENDS_A_JOB = {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"}
_JOB_CONTROLLER = "kubernetes.io/job-controller"
MAX_PODS = 200_000
"""Maximum number of pods in one simulation, more than any cluster holds."""


def expand(objects: Objects) -> None:
    """Add the pods of all workloads to ``objects``, which must be free of faults."""
    pods = objects.by_kind.setdefault("Pod", {})
    owned = _owners(objects)
    in_cluster = Admission(objects)
    for item in list(pods.values()):
        if not item.body["metadata"].get("uid"):  # no API server has seen it
            in_cluster.admit(item)
    for daemon in objects.of("DaemonSet"):
        in_cluster.admit_daemon(daemon)
    for job in objects.of("Job"):
        if manager := _other_manager(job):
            objects.note(f"{job.subject} is managed by {manager}, so Kubernetes creates no pods for it")
    for kind in WORKLOADS:
        for workload in objects.of(kind):
            count = wanted(workload)
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
            for pod in _pods(workload, _numbers(workload, count), in_cluster.admitted(workload)):
                add_template_claims(objects, workload, pod)
                if pod.key in pods:
                    other = pods[pod.key]
                    objects.faults.append(
                        workload.fault("", f"makes Pod {pod.key}, which {other.source} makes too: rename one of them")
                    )
                    break
                pods[pod.key] = pod


def replicas(workload: SourcedObject) -> int:
    """Number of pods that a workload requests; defaults to 1."""
    stated_count = workload.body["spec"].get("parallelism" if workload.kind == "Job" else "replicas")
    return 1 if stated_count is None else int(stated_count)


def wanted(workload: SourcedObject) -> int:
    """Number of pods that a workload's controller would run now."""
    if workload.body["metadata"].get("deletionTimestamp"):
        return 0
    return _wanted_of_job(workload) if workload.kind == "Job" else replicas(workload)


def _wanted_of_job(job: SourcedObject) -> int:
    """Pods of a Job: none once it is suspended or finished, and no more than it has completions left.

    Without ``completions``, the Job is a work queue, of which the first success ends the creation of pods.
    """
    spec, status = job.body["spec"], job.body.get("status") or {}
    conditions = {
        condition.get("type") for condition in status.get("conditions") or () if condition.get("status") == "True"
    }
    if spec.get("suspend") or conditions & _ENDS_A_JOB or _other_manager(job):
        return 0
    succeeded = int(status.get("succeeded") or 0)
    completions = spec.get("completions")
    if completions is None and spec.get("parallelism") is None:
        completions = 1
    if completions is None:
        return 0 if succeeded else replicas(job)
    return max(0, min(replicas(job), int(completions) - succeeded))


def _other_manager(job: SourcedObject) -> str:
    """The controller that runs the Job in place of Kubernetes' own, for example in another cluster; empty if none."""
    manager = job.body["spec"].get("managedBy")
    return str(manager) if manager and manager != _JOB_CONTROLLER else ""


def _numbers(workload: SourcedObject, count: int) -> list[int]:
    """The numbers in the names of the pods: those that the controller of a StatefulSet or an Indexed Job would use."""
    spec = workload.body["spec"]
    if workload.kind == "StatefulSet":
        start = int((spec.get("ordinals") or {}).get("start") or 0)
        return list(range(start, start + count))
    if not _indexed(workload):
        return list(range(count))
    status = workload.body.get("status") or {}
    done = _indexes(status.get("completedIndexes")) | _indexes(status.get("failedIndexes"))
    open_indexes = (number for number in range(int(spec.get("completions") or 0)) if number not in done)
    return list(islice(open_indexes, count))


def _indexed(workload: SourcedObject) -> bool:
    return workload.kind == "Job" and workload.body["spec"].get("completionMode") == "Indexed"


def _indexes(text: str | None) -> set[int]:
    """Parse indexes as a Job's status lists them, such as ``0,2-4``."""
    indexes: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            indexes.update(range(int(first), min(int(last or first), int(first) + MAX_PODS) + 1))
    return indexes


def _pods(workload: SourcedObject, numbers: Sequence[int], admitted: JsonObject) -> Iterator[SourcedObject]:
    template = workload.body["spec"]["template"]
    template_metadata = template.get("metadata") or {}
    identity = workload.body["metadata"].get("uid") or f"{workload.kind}/{workload.key}"
    owner = {**_owner(workload), "uid": identity, "controller": True}
    width = len(str(numbers[-1])) if numbers else 1
    labels = {**workload_labels(workload.kind, workload.name, template), **(template_metadata.get("labels") or {})}
    spec = {name: value for name, value in admitted.items() if name != "nodeName"}
    for number in numbers:
        added = replica_labels(workload.kind, workload.name, number, indexed=_indexed(workload))
        body: JsonObject = {
            "metadata": {
                "name": f"{workload.name}-{number}",
                "namespace": workload.namespace,
                "uid": f"{identity}/{number:0{width}d}",
                "labels": {**labels, **added} if added else labels,
                "annotations": template_metadata.get("annotations") or {},
                "creationTimestamp": workload.body["metadata"].get("creationTimestamp"),
                "ownerReferences": [owner],
            },
            "spec": dict(spec),
        }
        yield SourcedObject("Pod", body, workload.source)


def _owner(workload: SourcedObject) -> JsonObject:
    """The pods' owner reference. A Deployment's pods belong to the ReplicaSet that its controller creates."""
    if workload.kind == "Deployment":
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set(workload)["metadata"]["name"]}
    version = workload.body.get("apiVersion") or "apps/v1"
    return {"apiVersion": version, "kind": workload.kind, "name": workload.name}


def replica_set(deployment: SourcedObject) -> JsonObject:
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
        (str(owner.get("kind")), f"{workload.namespace}/{owner.get('name')}")
        for kind in ("Pod", *WORKLOADS)
        for workload in objects.of(kind)
        for owner in workload.body["metadata"].get("ownerReferences") or ()
    }


def add_buffer_pods(objects: Objects, scheduled: Mapping[tuple[str, str], int]) -> None:
    """Add the pods of all buffers to ``objects``, which must have no fault, so that the plan reserves capacity.

    ``scheduled``: replicas that NodeSchedules ask for, by namespace and name of the buffer.
    """
    pods = objects.by_kind.setdefault("Pod", {})
    for buffer in list(objects.of("CapacityBuffer")):
        spec = CapacityBuffer.model_validate(buffer.body).spec
        if spec.provisioning_strategy != ACTIVE_CAPACITY:
            objects.note(f"{buffer.subject} is left out: strategy {spec.provisioning_strategy} is not supported")
            continue
        template, scaled, missing = _template(objects, buffer, spec.model_dump(by_alias=True))
        if template is None:
            objects.note(f"{buffer.subject} is left out: {missing} is not in the input")
            continue
        if (replica_count := scheduled.get((buffer.namespace, buffer.name))) is not None:
            spec = evolve(spec, replicas=replica_count, percentage=None)
        count = buffer_size(spec, unit_requests(template), scaled)
        if len(pods) + count > MAX_PODS:
            found_fault = f"{count} pods are too many: a simulation takes {MAX_PODS}"
            objects.faults.append(buffer.fault("spec.replicas", found_fault))
            continue
        for number in range(count):
            pod = SourcedObject("Pod", buffer_pod(buffer.name, buffer.namespace, template, number), buffer.source)
            if pod.key in pods:
                where = pods[pod.key].source
                objects.faults.append(buffer.fault("", f"makes Pod {pod.key}, which also exists, in {where}"))
                break
            pods[pod.key] = pod


def _template(objects: Objects, buffer: SourcedObject, spec: JsonObject) -> tuple[JsonObject | None, int | None, str]:
    """Return the buffer's pod template and its workload's replicas.

    If the referenced object is not in the input, the template is None and the third value names that object.
    """
    workload = spec["scalableRef"]
    kind, name = (workload["kind"], workload["name"]) if workload else ("PodTemplate", spec["podTemplateRef"]["name"])
    key = f"{buffer.namespace}/{name}"
    target = objects.by_kind.get(kind, {}).get(key) or objects.followed.get((kind, key))
    if target is None:
        return None, None, f"{kind} {key}"
    if workload:
        return target.body["spec"]["template"], replicas(target), ""
    return target.body["template"], None, ""
