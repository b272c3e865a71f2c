"""Decides which planned pods Tenon binds to their node directly and which it leaves to kube-scheduler.

Binding bypasses the scheduler's queue, so it must not break a rule that the scheduler enforces. Tenon leaves a pod to
kube-scheduler if it cannot judge the pod from the node and the pods on it.

One rule is not seen there: required anti-affinity over a zone or another wider domain, of a pod on another node. The
plan kept the pod away from those that it knew. The process that binds has no cache, and reading all pods of the cluster
for each node that joins costs too much, so one that came to the zone since then does not keep the pod off the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenon.kube import object_json
from tenon.kube.host_ports import HostPort, first_conflict
from tenon.kube.node_affinity import accepts_node
from tenon.kube.planned_pods import PlannedPod
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodTerm
from tenon.kube.records import PodRecord
from tenon.kube.requests import covers_requests
from tenon.kube.scheduler_config import DEFAULT_SCHEDULER, NOTHING, DefaultSpread
from tenon.kube.structs import Object
from tenon.kube.taints import UNSCHEDULABLE, parse_taints, taints_of, untolerated
from tenon.node import startup_cordon
from tenon.resources import format_quantity, parse_resources, subtract, total


@dataclass(frozen=True, slots=True)
class BindingDecision:
    """The outcome for each planned pod.

    ``bind``: bind the pod to this node now. ``bound_here``: the pod already runs on this node. ``settled``: the pod
    is gone or has another node. ``other_pods``: kube-scheduler places the pod; maps the pod's key to the reason.
    """

    bind: tuple[PodRecord, ...] = ()
    bound_here: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    other_pods: Mapping[str, str] = field(default_factory=dict)


def choose(
    planned: Sequence[PlannedPod],
    fresh_pods: Mapping[str, PodRecord],
    node: Object,
    node_pods: Sequence[PodRecord],
    default_spread: DefaultSpread = NOTHING,
) -> BindingDecision:
    """Judge every planned pod in order. Each pod to bind reduces the free resources for the pods after it.

    Args:
        planned: the planned pods of the NodeClaim.
        fresh_pods: the planned pods that exist now, by ``namespace/name``.
        node: the Node of the NodeClaim.
        node_pods: a fresh list of the pods on the Node.
        default_spread: how kube-scheduler spreads pods without topology spread constraints of their own.
    """
    name = node["metadata"]["name"]
    assigned = [pod.pod for pod in node_pods if not pod.terminal]
    allocatable = parse_resources((node.get("status") or {}).get("allocatable"))
    available = subtract(allocatable, total(pod.requests for pod in assigned))
    ports = {port for pod in assigned for port in pod.host_ports}
    bind: list[PodRecord] = []
    bound_here: list[str] = []
    settled: list[str] = []
    other_pods: dict[str, str] = {}
    for entry in planned:
        pod = fresh_pods.get(entry.key)
        if pod is None or pod.uid != entry.uid or _is_over(pod):
            settled.append(entry.key)
            continue
        if pod.node_name:
            (bound_here if pod.node_name == name else settled).append(entry.key)
            continue
        why = refusal(pod, node, default_spread) or _why_no_room(pod.pod, available, ports, assigned)
        if why:
            other_pods[entry.key] = why
            continue
        bind.append(pod)
        assigned.append(pod.pod)
        available = subtract(available, pod.pod.requests)
        ports.update(pod.pod.host_ports)
    return BindingDecision(tuple(bind), tuple(bound_here), tuple(settled), other_pods)


def is_unscheduled(entry: PlannedPod, pod: PodRecord | None) -> bool:
    """True if a planned pod still has no node. ``pod`` is its current state, or None if it is gone."""
    return pod is not None and pod.uid == entry.uid and not _is_over(pod) and not pod.node_name


def refusal(pod: PodRecord, node: Object, default_spread: DefaultSpread = NOTHING) -> str:
    """Return why the pod may not be bound to the node, whatever other pods are there; empty if it may."""
    return _scheduler_needed(pod, default_spread) or _node_refuses(pod, node)


def _is_over(pod: PodRecord) -> bool:
    return pod.terminal or pod.deleting


def _scheduler_needed(pod: PodRecord, default_spread: DefaultSpread) -> str:
    """Return the rule that only the pod's own scheduler can enforce; empty if there is no such rule."""
    scheduler, rules = pod.scheduler or DEFAULT_SCHEDULER, pod.pod.rules
    if scheduler != DEFAULT_SCHEDULER:
        return f"scheduler {scheduler} places it"
    if pod.gated:
        return "it has scheduling gates"
    if pod.grouped:
        return "it belongs to a PodGroup, which kube-scheduler places as a whole"
    if pod.pod.unsupported:
        return pod.pod.unsupported
    if pod.volumes:
        return "it has persistent volumes, whose zones and attachment limits the scheduler knows"
    if rules.affinity or rules.anti_affinity:
        return "it has required pod affinity or anti-affinity"
    if any(spread.hard for spread in rules.spreads):
        return "it has a hard topology spread constraint"
    if not rules.spreads and default_spread.hard(scheduler):
        return "kube-scheduler may spread it by a hard default constraint"
    return ""


def _node_refuses(pod: PodRecord, node: Object) -> str:
    if pod.nominated_node and pod.nominated_node != node["metadata"]["name"]:
        return f"it is nominated for Node {pod.nominated_node}"
    if object_json.is_deleting(node):
        return "the Node is being deleted"
    startup_cordoned = startup_cordon.has_startup_cordon(node)
    if startup_cordon.is_cordoned(node) and not startup_cordoned:
        return "the Node is unschedulable"
    for taint in parse_taints(taints_of(node)):
        if startup_cordoned and (taint.key, taint.effect) == (UNSCHEDULABLE.key, UNSCHEDULABLE.effect):
            continue
        if untolerated(pod.pod.tolerations, (taint,)) is not None:
            return f"it does not tolerate the taint {taint.key}:{taint.effect}"
    if not accepts_node(pod.pod.required_terms, object_json.labels(node)):
        return "its node selector or affinity does not match the Node"
    return ""


def _why_no_room(pod: Pod, available: Mapping[str, int], ports: set[HostPort], assigned: Sequence[Pod]) -> str:
    """Return why resources, host ports or anti-affinity keep the pod off the node; empty if nothing does."""
    if not covers_requests(pod.requests, available):
        short = min(name for name, units in pod.requests.items() if units > max(0, available.get(name, 0)))
        available_text = format_quantity(short, max(0, available.get(short, 0)))
        return f"it does not fit: {short} {format_quantity(short, pod.requests[short])} asked, {available_text} free"
    conflict = first_conflict(sorted(pod.host_ports), ports)
    if conflict is not None:
        return f"host port {conflict[1]}/{conflict[2]} is taken"
    for other in assigned:
        if any(_term_selects(term, other, pod) for term in other.rules.anti_affinity):
            return f"pod {other.key} on the Node has anti-affinity against it"
    return ""


def _term_selects(term: PodTerm, owner: Pod, pod: Pod) -> bool:
    """True if an anti-affinity term matches the pod.

    A term with a namespaceSelector counts as matching every namespace.
    """
    within = term.namespace_selector is not None or pod.namespace in (term.namespaces or (owner.namespace,))
    return within and term.selector is not None and term.selector.matches(pod.labels)
