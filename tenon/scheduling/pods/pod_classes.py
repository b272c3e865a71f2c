"""Groups pods that no rule distinguishes, so that a thousand replicas cost the engine as much as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tenon.kube.host_ports import HostPort
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint, Toleration, tolerate, untolerated
from tenon.resources import CPU, MEMORY, PODS
from tenon.scheduling.pods.hostname_rules import DaemonRules, HostRules
from tenon.scheduling.pods.topology import AreaRules, HostAffinity, Part, Topology

Amounts = tuple[int, ...]

NO_TERM = (Requirements(),)


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """Pods with the same requests and constraints, oldest first. ``amounts`` follow the batch's resource names."""

    pods: tuple[Pod, ...]
    amounts: Amounts
    terms: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]
    ports: tuple[HostPort, ...]
    part: Part | None = None
    """How the pods take part in rules between pods; None if they do not."""
    host: HostRules | None = None
    near: tuple[HostAffinity, ...] = ()
    area: AreaRules | None = None
    own_terms: tuple[Requirements, ...] = NO_TERM
    """The pods' own terms, without those that volumes and preferences add."""
    attachments: tuple[tuple[str, str], ...] = ()
    strict: bool = False
    """True if PreferNoSchedule taints also keep the pods away."""
    base: PodClass | None = None
    """The class that this one narrows or relaxes; None if this is the class as it was grouped."""
    workload: str = ""
    """The workload of all its pods; empty if the batch does not limit workloads per node (`BlastRadius`)."""
    daemons: DaemonRules | None = None
    """What the pods require of DaemonSets' pods on their node; None if nothing."""

    @property
    def origin(self) -> PodClass:
        """The class as it was grouped, which lists the pods."""
        return self.base or self

    def narrowed(self, terms: tuple[Requirements, ...]) -> PodClass:
        """The class with other terms."""
        # This is by far the most frequent change, and dataclasses.replace takes ten times as long.
        return PodClass(
            self.pods,
            self.amounts,
            terms,
            self.tolerations,
            self.ports,
            self.part,
            self.host,
            self.near,
            self.area,
            self.own_terms,
            self.attachments,
            self.strict,
            self.origin,
            self.workload,
            self.daemons,
        )

    def beside_daemons(self, groups: frozenset[int]) -> PodClass:
        """The class for nodes that get DaemonSets' pods of these groups, in place of other pods that it must join."""
        before = self.daemons or DaemonRules()
        return replace(self, daemons=replace(before, needed=before.needed | groups), base=self.origin)

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether the pods may run on a node with these taints."""
        return self.untolerated(taints) is None

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the pods away."""
        if not self.strict:
            return untolerated(self.tolerations, taints)
        return next((taint for taint in taints if not tolerate(self.tolerations, taint)), None)


def resource_names(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Resources that some pod requests: CPU, memory and pods first, then the others by name."""
    requested_names = {name for pod in pods for name, units in pod.requests.items() if units > 0}
    return (CPU, MEMORY, PODS, *sorted(requested_names - {CPU, MEMORY, PODS}))


def workload_key(pod: Pod) -> str:
    """``namespace/Kind/name`` of the pod's controller; empty if it has none."""
    return f"{pod.namespace}/{pod.workload}" if pod.workload else ""


def group(
    pods: Iterable[Pod], names: tuple[str, ...], topology: Topology | None = None, *, by_workload: bool = False
) -> list[PodClass]:
    """Return the classes of the pods, largest CPU request first, then by memory, age and UID.

    With ``by_workload``, pods of different workloads are always in different classes.
    """
    members: dict[tuple[Any, ...], list[Pod]] = {}
    shared: dict[tuple[Requirements, ...], tuple[Requirements, ...]] = {}
    for pod in pods:
        amounts = tuple(pod.requests.get(name, 0) for name in names)
        terms = shared.setdefault(pod.required_terms, pod.required_terms)
        part = topology.part(pod) if topology is not None else None
        workload = workload_key(pod) if by_workload else ""
        key = (amounts, terms, pod.tolerations, pod.host_ports, part, pod.volume_terms, pod.attachments, workload)
        members.setdefault(key, []).append(pod)
    classes = []
    for (amounts, _, _, _, part, _, _, workload), class_pods in members.items():
        found_class = _pod_class(class_pods, amounts, shared, part, topology)
        classes.append(replace(found_class, workload=workload) if workload else found_class)
    return sorted(classes, key=queue_order)


def _pod_class(
    pods: list[Pod],
    amounts: Amounts,
    shared: dict[tuple[Requirements, ...], tuple[Requirements, ...]],
    part: Part | None,
    topology: Topology | None,
) -> PodClass:
    ordered = tuple(sorted(pods, key=lambda pod: (pod.created, pod.uid, pod.key)))
    first = ordered[0]
    own = shared[first.required_terms] or NO_TERM
    plain = PodClass(
        pods=ordered,
        amounts=amounts,
        terms=combined(own, first.volume_terms),
        tolerations=first.tolerations,
        ports=first.host_ports,
        part=part,
        own_terms=own,
        attachments=first.attachments,
    )
    if part is None or topology is None:
        return plain
    host, near, area, daemons = topology.compile(part, part.rules, first.required_terms, first.tolerations)
    return replace(plain, host=host, near=near, area=area, daemons=daemons)


def combined(terms: tuple[Requirements, ...], other_terms: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    """Each term combined with each of the others; the terms alone if there are no others."""
    return (
        tuple(dict.fromkeys(term.with_(other_term) for term in terms for other_term in other_terms))
        if other_terms
        else terms
    )


def queue_order(pod_class: PodClass) -> tuple[object, ...]:
    """Sort key: the order in which pods are queued."""
    first = pod_class.pods[0]
    return (-pod_class.amounts[0], -pod_class.amounts[1], first.created, first.uid, first.key)
