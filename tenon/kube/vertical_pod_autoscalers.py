"""What a VerticalPodAutoscaler makes of the requests of a pod that is created again (SCH-105, N15-305).

VPA's admission webhook sets the requests of a new pod. So a pod that must leave its node does not come back with the
requests that it has, and a node that was chosen for these may be too small, or larger than needed. Tenon knows the
recommendation and applies it as the webhook does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from tenon.kube.pod_decode import pod_record
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.requests import effective_requests, units
from tenon.kube.sharing import share_value
from tenon.kube.structs import Container, Metadata, PodObject, PodSpec, Quantities, ResourceNeeds, Wire
from tenon.kube.timestamps import epoch_seconds
from tenon.resources import CPU, MEMORY, Resources, format_resources, maximum

OFF = "Off"
INITIAL = "Initial"
EVERY_CONTAINER = "*"
_REQUESTS_ONLY = "RequestsOnly"
_CONTROLLED = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """What may become of the requests of one container."""

    off: bool = False
    least: Resources = field(default_factory=dict)
    most: Resources = field(default_factory=dict)
    resources: tuple[str, ...] = _CONTROLLED
    within_limits: bool = False
    """Its limits stay, so that its requests cannot exceed them."""


@dataclass(frozen=True, slots=True)
class VerticalPodAutoscaler:
    """A VPA that has a recommendation and does not only show it."""

    target: str
    """The controller of its pods as ``Kind/name``, in the VPA's namespace."""
    created: float
    changes_running_pods: bool
    """It resizes or evicts pods that run, and not only sets the requests of new ones."""
    policies: Mapping[str, ContainerPolicy]
    """By container; `EVERY_CONTAINER` for the others."""
    recommended: Mapping[str, Resources]
    """By container."""


class _TargetRef(Wire):
    kind: str = ""
    name: str = ""


class _UpdatePolicy(Wire):
    update_mode: str | None = None


class _ContainerPolicy(Wire):
    container_name: str = EVERY_CONTAINER
    mode: str | None = None
    min_allowed: Quantities | None = None
    max_allowed: Quantities | None = None
    controlled_resources: list[str] | None = None
    controlled_values: str | None = None


class _ResourcePolicy(Wire):
    container_policies: list[_ContainerPolicy] | None = None


class _Spec(Wire):
    target_ref: _TargetRef | None = None
    update_policy: _UpdatePolicy | None = None
    resource_policy: _ResourcePolicy | None = None


class _Recommendation(Wire):
    container_name: str = ""
    target: Quantities | None = None


class _Recommendations(Wire):
    container_recommendations: list[_Recommendation] | None = None


class _Status(Wire):
    recommendation: _Recommendations | None = None


class _Object(Wire):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_objects = msgspec.json.Decoder(_Object)
_pods = msgspec.json.Decoder(PodObject)


def decode_vpa(raw: bytes | msgspec.Raw) -> ValueRecord[VerticalPodAutoscaler | None]:
    """Decode a VerticalPodAutoscaler; the value is None if it changes no pod.

    Raises:
        ValueError: the bytes are not a VerticalPodAutoscaler, or contain a malformed quantity.
    """
    wire = _objects.decode(raw)
    metadata = wire.metadata
    return ValueRecord(metadata.namespaced_key, metadata.uid, metadata.resource_version, _autoscaler(wire))


def _autoscaler(wire: _Object) -> VerticalPodAutoscaler | None:
    mode = (wire.spec.update_policy.update_mode if wire.spec.update_policy else None) or "Auto"
    target, status = wire.spec.target_ref, wire.status.recommendation
    recommendations = (status.container_recommendations if status else None) or ()
    if mode == OFF or target is None or not recommendations or wire.metadata.deletion_timestamp is not None:
        return None
    policies = (wire.spec.resource_policy.container_policies if wire.spec.resource_policy else None) or ()
    return VerticalPodAutoscaler(
        target=f"{target.kind}/{target.name}",
        created=epoch_seconds(wire.metadata.creation_timestamp),
        changes_running_pods=mode != INITIAL,
        policies={policy.container_name: _policy(policy) for policy in policies},
        recommended={entry.container_name: units(entry.target) for entry in recommendations},
    )


def _policy(wire: _ContainerPolicy) -> ContainerPolicy:
    return ContainerPolicy(
        off=wire.mode == OFF,
        least=units(wire.min_allowed),
        most=units(wire.max_allowed),
        resources=_CONTROLLED if wire.controlled_resources is None else tuple(wire.controlled_resources),
        within_limits=wire.controlled_values == _REQUESTS_ONLY,
    )


def deciding_vpa(
    records: Iterable[ValueRecord[VerticalPodAutoscaler | None]],
) -> VerticalPodAutoscaler | None:
    """Return the one of several VPAs of a controller that VPA follows: the oldest, then the first by name."""
    decided = [(record.value.created, record.key, record.value) for record in records if record.value is not None]
    return min(decided, key=lambda entry: entry[:2])[2] if decided else None


def container_requests(spec: PodSpec) -> bytes:
    """Return what of a pod's spec its requests depend on, as JSON, which pods of one template have in common."""
    reduced = PodSpec(
        containers=_reduced(spec.containers),
        init_containers=_reduced(spec.init_containers),
        resources=spec.resources,
        overhead=spec.overhead,
    )
    return msgspec.json.encode(reduced)


def _reduced(containers: Iterable[Container] | None) -> list[Container]:
    return [
        Container(name=container.name, resources=container.resources, restart_policy=container.restart_policy)
        for container in containers or ()
    ]


def decode_pod_with_containers(raw: bytes | msgspec.Raw) -> PodRecord:
    """Decode a Pod, with what a prediction needs of its containers if a controller would create it again.

    Raises:
        ValueError: the bytes are not a Pod, or contain a malformed quantity.
    """
    wire = _pods.decode(raw)
    record = pod_record(wire)
    return replace(record, containers=share_value(container_requests(wire.spec))) if record.pod.workload else record


def predicted_requests(containers: bytes, vpa: VerticalPodAutoscaler) -> Resources:
    """Return what a pod will request when it is created again.

    Args:
        containers: of `container_requests`.
        vpa: the VPA of the pod's controller.
    """
    spec = msgspec.json.decode(containers, type=PodSpec)
    spec.containers = [_predicted(container, vpa) for container in spec.containers or ()]
    return effective_requests(spec)


def larger_requests(own: Resources, predicted: Resources) -> Resources:
    """Return requests that hold both what a pod requests and what it will request."""
    return maximum(own, predicted)


def _predicted(container: Container, vpa: VerticalPodAutoscaler) -> Container:
    target = vpa.recommended.get(container.name)
    policy = vpa.policies.get(container.name) or vpa.policies.get(EVERY_CONTAINER) or ContainerPolicy()
    if target is None or policy.off:
        return container
    needs = container.resources or ResourceNeeds()
    limits = units(needs.limits)
    amounts: Resources = {}
    for name, amount in target.items():
        if name not in policy.resources:
            continue
        bounded = max(amount, policy.least.get(name, 0))
        bounded = min(bounded, policy.most.get(name, bounded))
        amounts[name] = min(bounded, limits.get(name, bounded)) if policy.within_limits else bounded
    requests = {**(needs.requests or {}), **format_resources(amounts)}
    return Container(
        name=container.name,
        resources=ResourceNeeds(requests=requests, limits=needs.limits),
        restart_policy=container.restart_policy,
    )
