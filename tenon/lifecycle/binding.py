"""Decides which planned pods Tenon binds to their node directly and which it leaves to kube-scheduler.

Binding bypasses the scheduler's queue, so it must never break a rule that the scheduler enforces. Tenon leaves a pod to
kube-scheduler if it cannot judge the pod from the node and the pods on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.kube import object_json, pod_json, requests
from tenon.kube.host_ports import HostPort, first_conflict, host_ports_of
from tenon.kube.node_affinity import accepts_node
from tenon.kube.planned_pods import PlannedPod
from tenon.kube.requests import requests_of
from tenon.kube.scheduler_config import DEFAULT_SCHEDULER, NOTHING, DefaultSpread
from tenon.kube.selectors import selects
from tenon.kube.structs import Object, PodSpec, read
from tenon.kube.taints import UNSCHEDULABLE, parse_taints, taints_of
from tenon.lifecycle import startup_cordon
from tenon.resources import format_quantity, subtract

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class BindingDecision:
    """The outcome for each planned pod.

    ``bind``: bind the pod to this node now. ``here``: the pod already runs on this node. ``settled``: the pod is gone
    or has another node. ``left``: kube-scheduler places the pod; maps the pod's key to the reason.
    """

    bind: tuple[Object, ...] = ()
    here: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


def choose(
    planned: Sequence[PlannedPod],
    found: Mapping[str, Object],
    node: Object,
    node_pods: Sequence[Object],
    default_spread: DefaultSpread = NOTHING,
) -> BindingDecision:
    """Judge every planned pod in order. Each pod to bind reduces the free resources for the pods after it.

    Args:
        planned: the planned pods of the NodeClaim.
        found: the planned pods that exist now, by ``namespace/name``.
        node: the Node of the NodeClaim.
        node_pods: a fresh list of the pods on the Node.
        default_spread: how kube-scheduler spreads pods without topology spread constraints of their own.
    """
    name = node["metadata"]["name"]
    assigned = [pod for pod in node_pods if not pod_json.is_terminal(pod)]
    available = requests.free(node, assigned)
    ports = {port for pod in assigned for port in host_ports_of(pod)}
    bind: list[Object] = []
    here: list[str] = []
    settled: list[str] = []
    left: dict[str, str] = {}
    for entry in planned:
        pod = found.get(entry.key)
        if pod is None or object_json.uid(pod) != entry.uid or _is_over(pod):
            settled.append(entry.key)
            continue
        placed = (pod.get("spec") or {}).get("nodeName")
        if placed:
            (here if placed == name else settled).append(entry.key)
            continue
        why = refusal(pod, node, default_spread) or _why_no_room(pod, available, ports, assigned)
        if why:
            left[entry.key] = why
            continue
        bind.append(pod)
        assigned.append(pod)
        available = subtract(available, requests_of(pod))
        ports.update(host_ports_of(pod))
    return BindingDecision(tuple(bind), tuple(here), tuple(settled), left)


def is_unscheduled(entry: PlannedPod, pod: Object | None) -> bool:
    """True if a planned pod still has no node. ``pod`` is its current object, or None if it is gone."""
    if pod is None or object_json.uid(pod) != entry.uid or _is_over(pod):
        return False
    return not (pod.get("spec") or {}).get("nodeName")


def refusal(pod: Object, node: Object, default_spread: DefaultSpread = NOTHING) -> str:
    """Return why the pod may not be bound to the node, whatever other pods are there; empty if it may."""
    return _scheduler_needed(pod, default_spread) or _node_refuses(pod, node)


def _is_over(pod: Object) -> bool:
    return pod_json.is_terminal(pod) or object_json.is_deleting(pod)


def _scheduler_needed(pod: Object, default_spread: DefaultSpread) -> str:
    """Return the rule that only the pod's own scheduler can enforce; empty if there is no such rule."""
    spec = pod.get("spec") or {}
    scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if scheduler != DEFAULT_SCHEDULER:
        return f"scheduler {scheduler} places it"
    if spec.get("schedulingGates"):
        return "it has scheduling gates"
    if spec.get("resourceClaims"):
        return "it has resource claims"
    if any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in spec.get("volumes") or ()):
        return "it has persistent volumes, whose zones and attachment limits the scheduler knows"
    affinity = spec.get("affinity") or {}
    if any((affinity.get(kind) or {}).get(REQUIRED) for kind in ("podAffinity", "podAntiAffinity")):
        return "it has required pod affinity or anti-affinity"
    spread = spec.get("topologySpreadConstraints") or ()
    if any(constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for constraint in spread):
        return "it has a hard topology spread constraint"
    if not spread and default_spread.hard(scheduler):
        return "kube-scheduler may spread it by a hard default constraint"
    return ""


def _node_refuses(pod: Object, node: Object) -> str:
    metadata = node["metadata"]
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    if nominated and nominated != metadata["name"]:
        return f"it is nominated for Node {nominated}"
    if object_json.is_deleting(node):
        return "the Node is being deleted"
    startup_cordoned = startup_cordon.has_startup_cordon(node)
    if startup_cordon.is_cordoned(node) and not startup_cordoned:
        return "the Node is unschedulable"
    for taint in parse_taints(taints_of(node)):
        if startup_cordoned and (taint.key, taint.effect) == (UNSCHEDULABLE.key, UNSCHEDULABLE.effect):
            continue
        if taint.effect in ("NoSchedule", "NoExecute") and not pod_json.tolerates(pod, taint):
            return f"it does not tolerate the taint {taint.key}:{taint.effect}"
    if not accepts_node(read(pod.get("spec"), PodSpec), metadata["name"], object_json.labels(node)):
        return "its node selector or affinity does not match the Node"
    return ""


def _why_no_room(pod: Object, available: Mapping[str, int], ports: set[HostPort], assigned: Sequence[Object]) -> str:
    """Return why resources, host ports or anti-affinity keep the pod off the node; empty if nothing does."""
    wanted = requests_of(pod)
    if not requests.covers_requests(wanted, dict(available)):
        short = min(name for name, units in wanted.items() if units > max(0, available.get(name, 0)))
        has = format_quantity(short, max(0, available.get(short, 0)))
        return f"it does not fit: {short} {format_quantity(short, wanted[short])} asked, {has} free"
    taken = first_conflict(sorted(host_ports_of(pod)), ports)
    if taken is not None:
        return f"host port {taken[1]}/{taken[2]} is taken"
    for other in assigned:
        if any(_term_selects(term, other, pod) for term in _anti_affinity_terms(other)):
            return f"pod {object_json.key(other)} on the Node has anti-affinity against it"
    return ""


def _anti_affinity_terms(pod: Object) -> Iterator[Object]:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    yield from (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ()


def _term_selects(term: Object, owner: Object, pod: Object) -> bool:
    """True if an anti-affinity term matches the pod.

    A term with a namespaceSelector counts as matching every namespace.
    """
    namespace = pod["metadata"].get("namespace")
    named = term.get("namespaces") or ()
    if term.get("namespaceSelector") is None:
        within = namespace in (named or (owner["metadata"].get("namespace"),))
    else:
        within = True
    return within and selects(term.get("labelSelector"), object_json.labels(pod))
