"""Turns the CapacityBuffers of an input into pending pods, so that the plan reserves capacity for them."""

from __future__ import annotations

from tenon.apis.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer
from tenon.apis.json_object import JsonObject
from tenon.provisioning.buffers import buffer_pod, buffer_size, unit_requests
from tenon.simulation.objects import Found, Objects
from tenon.simulation.workloads import MAX_PODS, replicas


def add_buffer_pods(objects: Objects) -> None:
    """Add the pods of all buffers to ``objects``, which must be free of faults."""
    pods = objects.by_kind.setdefault("Pod", {})
    for found in list(objects.of("CapacityBuffer")):
        spec = CapacityBuffer.model_validate(found.body).spec
        if spec.provisioning_strategy != ACTIVE_CAPACITY:
            objects.note(f"{found.subject} is left out: strategy {spec.provisioning_strategy} is not supported")
            continue
        template, scaled, missing = _template(objects, found, spec.model_dump(by_alias=True))
        if template is None:
            objects.note(f"{found.subject} is left out: {missing} is not in the input")
            continue
        count = buffer_size(spec, unit_requests(template), scaled)
        if len(pods) + count > MAX_PODS:
            found_fault = f"{count} pods are too many: a simulation takes {MAX_PODS}"
            objects.faults.append(found.fault("spec.replicas", found_fault))
            continue
        for number in range(count):
            pod = Found("Pod", buffer_pod(found.name, found.namespace, template, number), found.source)
            if pod.key in pods:
                where = pods[pod.key].source
                objects.faults.append(found.fault("", f"makes Pod {pod.key}, which also exists, in {where}"))
                break
            pods[pod.key] = pod


def _template(objects: Objects, buffer: Found, spec: JsonObject) -> tuple[JsonObject | None, int | None, str]:
    """Return the buffer's pod template and its workload's replicas.

    If the referenced object is not in the input, the template is None and the third value names that object.
    """
    workload = spec["scalableRef"]
    kind, name = (workload["kind"], workload["name"]) if workload else ("PodTemplate", spec["podTemplateRef"]["name"])
    key = f"{buffer.namespace}/{name}"
    found = objects.by_kind.get(kind, {}).get(key) or objects.followed.get((kind, key))
    if found is None:
        return None, None, f"{kind} {key}"
    if workload:
        return found.body["spec"]["template"], replicas(found), ""
    return found.body["template"], None, ""
