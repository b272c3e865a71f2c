"""Group pods that no rule can tell apart, so that a thousand replicas cost the engine as much as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenon.resources import CPU, MEMORY, PODS
from tenon.scheduling.model import Pod, Taint, Toleration
from tenon.scheduling.requirements import Requirements

Port = tuple[str, int, str]
Amounts = tuple[int, ...]

WILD_ADDRESSES = frozenset({"", "0.0.0.0", "::"})
NO_TERM = (Requirements(),)


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """Pods with the same requests and constraints, oldest first. ``amounts`` follow the batch's resource names."""

    pods: tuple[Pod, ...]
    amounts: Amounts
    terms: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]
    ports: tuple[Port, ...]

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether the pods may go to a node with these taints; PreferNoSchedule keeps nobody away."""
        return self.untolerated(taints) is None

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the pods away."""
        for taint in taints:
            if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in self.tolerations):
                return taint
        return None


def resource_names(pods: Iterable[Pod]) -> tuple[str, ...]:
    """The names that some pod asks for: CPU, memory and pods first, the others in order."""
    named = {name for pod in pods for name, units in pod.requests.items() if units > 0}
    return (CPU, MEMORY, PODS, *sorted(named - {CPU, MEMORY, PODS}))


def group(pods: Iterable[Pod], names: tuple[str, ...]) -> list[PodClass]:
    """The classes of the pods, largest CPU request first, then memory, then age and UID."""
    members: dict[tuple[object, ...], list[Pod]] = {}
    shared: dict[tuple[Requirements, ...], tuple[Requirements, ...]] = {}
    for pod in pods:
        amounts = tuple(pod.requests.get(name, 0) for name in names)
        terms = shared.setdefault(pod.required_terms, pod.required_terms)
        members.setdefault((amounts, terms, pod.tolerations, pod.host_ports), []).append(pod)
    classes = [_pod_class(found, names, shared) for found in members.values()]
    return sorted(classes, key=_queue_order)


def _pod_class(
    pods: list[Pod], names: tuple[str, ...], shared: dict[tuple[Requirements, ...], tuple[Requirements, ...]]
) -> PodClass:
    ordered = tuple(sorted(pods, key=lambda pod: (pod.created, pod.uid, pod.key)))
    first = ordered[0]
    return PodClass(
        pods=ordered,
        amounts=tuple(first.requests.get(name, 0) for name in names),
        terms=shared[first.required_terms] or NO_TERM,
        tolerations=first.tolerations,
        ports=first.host_ports,
    )


def _queue_order(pod_class: PodClass) -> tuple[object, ...]:
    first = pod_class.pods[0]
    return (-pod_class.amounts[0], -pod_class.amounts[1], first.created, first.uid, first.key)


def ports_clash(left: Iterable[Port], right: Iterable[Port]) -> bool:
    """Whether two lists of (address, port, protocol) cannot share a node; an unspecified address means all."""
    taken = list(right)
    return any(
        port == other_port
        and protocol == other_protocol
        and (address == other or address in WILD_ADDRESSES or other in WILD_ADDRESSES)
        for address, port, protocol in left
        for other, other_port, other_protocol in taken
    )
