"""Resolves a CapacityBuffer into the pods that it stands for, and computes its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenon.apis.capacitybuffer import CapacityBuffer, CapacityBufferStatus, PodTemplateRef
from tenon.apis.common import Condition
from tenon.apis.conditions import set_condition
from tenon.provisioning.buffers import buffer_size, unit_requests

READY_FOR_PROVISIONING = "ReadyForProvisioning"
PROVISIONING = "Provisioning"
RESOLVED = "Resolved"
SCALABLE_REF_NOT_FOUND = "ScalableRefNotFound"
POD_TEMPLATE_NOT_FOUND = "PodTemplateNotFound"
RESOLUTION_FAILED = "ResolutionFailed"
FITS_EXISTING = "FitsExistingCapacity"
REQUIRES_NEW = "RequiresNewCapacity"
NOT_READY = "NotReadyForProvisioning"
EMPTY = "BufferEmpty"

INFEASIBLE = "Infeasible"

POD_TEMPLATE = "PodTemplate"
WORKLOADS = ("Deployment", "StatefulSet", "ReplicaSet")
"""The kinds of the API group apps that a buffer may refer to. Other autoscalers, which serve the same CRD, may know
more.
"""
BUFFER_TARGETS = (*WORKLOADS, POD_TEMPLATE)
_APPS = "apps"
MAX_PODS = 10_000
"""The most pods that one buffer may stand for."""


@dataclass(frozen=True, slots=True)
class ResolvedBuffer:
    """A buffer with the object that it refers to.

    Without a template it stands for no pods; ``reason`` and ``why`` say why.
    """

    reason: str
    why: str
    template: Mapping[str, Any] | None = None
    count: int = 0
    template_name: str = ""
    """The name of the PodTemplate; empty if the pods are those of a workload."""
    template_generation: int | None = None


@dataclass(frozen=True, slots=True)
class BufferSimulation:
    """What the last simulation found for a buffer's pods."""

    ready: int = 0
    """How many pods fit on nodes that are ready for them."""
    starting: int = 0
    """How many pods fit on nodes that are starting."""
    refused: str = ""
    """Why the other pods do not fit."""


def refers_to(buffer: CapacityBuffer) -> tuple[str, str]:
    """Return kind and name of the object that describes the buffer's pods. It is in the buffer's namespace."""
    scalable, template = buffer.spec.scalable_ref, buffer.spec.pod_template_ref
    if scalable is not None:
        return scalable.kind, scalable.name
    assert template is not None  # a valid buffer has one of the two
    return POD_TEMPLATE, template.name


def named_targets(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return kind and name of what a buffer's spec refers to, whether or not the spec is valid."""
    scalable, template = spec.get("scalableRef") or {}, spec.get("podTemplateRef") or {}
    return [(scalable.get("kind", ""), scalable.get("name", "")), (POD_TEMPLATE, template.get("name", ""))]


def why_unsupported(buffer: CapacityBuffer) -> str:
    """Return why the workload that the buffer refers to is not supported; empty if it is, or if it is a PodTemplate.

    An empty API group is that of apps (N15-304).
    """
    reference = buffer.spec.scalable_ref
    if reference is None or (reference.kind in WORKLOADS and reference.api_group in ("", _APPS)):
        return ""
    kind = reference.kind if reference.api_group in ("", _APPS) else f"{reference.kind}.{reference.api_group}"
    return (
        f"{kind} {reference.name} is not a supported workload: use one of {', '.join(WORKLOADS)} of the API group apps"
    )


def unreadable(why: str) -> ResolvedBuffer:
    """A buffer that is not valid, or whose reference cannot be read."""
    return ResolvedBuffer(RESOLUTION_FAILED, why)


def resolved(buffer: CapacityBuffer, target: Mapping[str, Any] | None) -> ResolvedBuffer:
    """Resolve a valid buffer. ``target`` is the object that it refers to, or None if that does not exist."""
    kind, name = refers_to(buffer)
    if target is None:
        reason = POD_TEMPLATE_NOT_FOUND if kind == POD_TEMPLATE else SCALABLE_REF_NOT_FOUND
        return ResolvedBuffer(reason, f"{kind} {name} does not exist: create it in the buffer's namespace")
    of_template = kind == POD_TEMPLATE
    template = target["template"] if of_template else target["spec"]["template"]
    replicas = None if of_template else int(target["spec"].get("replicas", 1))
    try:
        count = buffer_size(buffer.spec, unit_requests(template), replicas)
    except ValueError as error:
        return unreadable(f"the requests of the pods of {kind} {name} cannot be read: {error}")
    if count > MAX_PODS:
        return unreadable(f"it reserves {count} pods, more than the limit of {MAX_PODS}: lower it")
    generation = target["metadata"].get("generation") if of_template else None
    return ResolvedBuffer(RESOLVED, "", template, count, name if of_template else "", generation)


def buffer_status(
    buffer: CapacityBuffer,
    resolved_buffer: ResolvedBuffer,
    room: BufferSimulation | None,
    now: datetime,
    infeasible: str = "",
) -> CapacityBufferStatus:
    """Return the buffer's new status.

    ``room`` is None before the first simulation of its pods. ``infeasible`` says why no node that any NodePool could
    ever launch would take one of its pods (`tenon.provisioning.buffer_feasibility`).
    """
    generation = buffer.metadata.generation
    ready = resolved_buffer.template is not None
    conditions = set_condition(
        buffer.status.conditions,
        READY_FOR_PROVISIONING,
        "True" if ready else "False",
        now=now,
        reason=resolved_buffer.reason,
        message=resolved_buffer.why[:1000],
        observed_generation=generation,
    )
    if provisioning := _provisioning(resolved_buffer, room, infeasible):
        holds, reason, message = provisioning
        conditions = set_condition(
            conditions,
            PROVISIONING,
            "True" if holds else "False",
            now=now,
            reason=reason,
            message=message[:1000],
            observed_generation=generation,
        )
    return CapacityBufferStatus(
        pod_template_ref=PodTemplateRef(name=resolved_buffer.template_name) if resolved_buffer.template_name else None,
        replicas=resolved_buffer.count if ready else buffer.status.replicas,
        pod_template_generation=resolved_buffer.template_generation,
        provisioning_strategy=buffer.spec.provisioning_strategy,
        conditions=conditions,
    )


def condition_reasons(conditions: Sequence[Condition]) -> dict[str, str]:
    """Return the reason of each condition, by type."""
    return {condition.type: condition.reason for condition in conditions}


def _provisioning(
    resolved_buffer: ResolvedBuffer, room: BufferSimulation | None, infeasible: str
) -> tuple[bool, str, str] | None:
    """Return the status, reason and message of the condition Provisioning; None if nothing is known yet."""
    if resolved_buffer.template is None:
        return False, NOT_READY, "the buffer is not ready for provisioning"
    if not resolved_buffer.count:
        return False, EMPTY, "the buffer reserves no pods"
    if room is None:
        return None
    if room.ready >= resolved_buffer.count:
        return True, FITS_EXISTING, f"all {resolved_buffer.count} pods have room on nodes that are ready"
    if infeasible and not room.starting:
        return False, INFEASIBLE, f"no NodePool can ever launch a node for its pods: {infeasible}"
    parts = [f"{room.ready} of {resolved_buffer.count} pods have room on nodes that are ready"]
    if room.starting:
        parts.append(f"{room.starting} on nodes that start")
    if without := resolved_buffer.count - room.ready - room.starting:
        parts.append(f"{without} have none" + (f": {room.refused}" if room.refused else " yet"))
    return False, REQUIRES_NEW, ", ".join(parts)
