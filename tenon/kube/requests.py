"""What a pod takes of its node: the effective request that kube-scheduler counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from tenon.kube.pod_kinds import is_terminal
from tenon.kube.structs import Container, ContainerStatus, Object, PodSpec, PodStatus, Quantities, ResourceNeeds, read
from tenon.resources import CPU, MEMORY, PODS, Resources, maximum, parse_resources, subtract, to_units, total

_to_units = lru_cache(maxsize=8192)(to_units)

RESIZE_PENDING = "PodResizePending"
INFEASIBLE = "Infeasible"


def units(quantities: Quantities | None) -> Resources:
    """A resource list in integer units; each of the few texts that a cluster uses is parsed once."""
    return {name: _to_units(name, quantity) for name, quantity in (quantities or {}).items()}


def effective_requests(spec: PodSpec, status: PodStatus | None = None, defaults: Resources | None = None) -> Resources:
    """The pod's request, itself counted as one of the resource ``pods``.

    Init containers run one after another before the others. Sidecars (init containers that always restart) keep running
    next to everything that starts after them. A resource that the pod as a whole requests replaces the containers' sum.
    ``defaults`` is what a container requests that states nothing of a resource.
    """
    given = defaults or {}
    statuses = _statuses(status)
    refused = bool(statuses) and _resize_refused(status)
    running = total(_container(container, statuses, given, refused) for container in spec.containers or ())
    sidecars: Resources = {}
    starting: Resources = {}
    for container in spec.init_containers or ():
        own = _container(container, statuses, given, refused)
        if container.restart_policy == "Always":
            sidecars = total((sidecars, own))
            starting = maximum(starting, sidecars)
        else:
            starting = maximum(starting, total((sidecars, own)))
    requests = maximum(total((running, sidecars)), starting)
    requests.update(_pod_level(spec.resources, requests))
    requests = total((requests, units(spec.overhead)))
    requests[PODS] = 1
    return requests


def requests_of(pod: Object) -> Resources:
    """The effective request of a pod as JSON.

    Raises:
        ValueError: a quantity in it is malformed.
    """
    return effective_requests(read(pod.get("spec"), PodSpec), read(pod.get("status"), PodStatus))


def free(node: Object, node_pods: Iterable[Object]) -> Resources:
    """What the node's allocatable leaves after its pods; pods that have ended take nothing."""
    allocatable = parse_resources((node.get("status") or {}).get("allocatable"))
    running = (pod for pod in node_pods if not is_terminal((pod.get("status") or {}).get("phase") or ""))
    return subtract(allocatable, total(requests_of(pod) for pod in running))


def suits(wanted: Mapping[str, int], available: Mapping[str, int]) -> bool:
    """Whether what a pod requests is available; a resource that it does not request may be overdrawn."""
    return all(amount <= available.get(name, 0) for name, amount in wanted.items() if amount > 0)


def _container(
    container: Container, statuses: Mapping[str, ContainerStatus], defaults: Resources, refused: bool
) -> Resources:
    needs = container.resources
    own = {**defaults, **_with_limits(needs)} if needs is not None else defaults
    status = statuses.get(container.name) if statuses else None
    if status is None:
        return own
    stated = needs.requests if needs is not None else None
    actual = status.resources.requests if status.resources is not None else None
    held = [quantities for quantities in (status.allocated_resources, actual) if quantities and quantities != stated]
    if not held:
        return own  # nearly always: the container is not being resized
    has = maximum(*(units(quantities) for quantities in held))
    # kube-scheduler counts the larger of what the container has and what it asks for, unless it can never get that.
    return {**own, **has} if refused else maximum(own, has)


def _with_limits(needs: ResourceNeeds) -> Resources:
    """Requests; a limit stands in where there is no request, as the API server defaults it."""
    return {**units(needs.limits), **units(needs.requests)}


def _pod_level(needs: ResourceNeeds | None, containers: Resources) -> Resources:
    if needs is None:
        return {}
    limits = {name: amount for name, amount in units(needs.limits).items() if name not in containers}
    stated = {**limits, **units(needs.requests)}
    return {n: amount for n, amount in stated.items() if n in (CPU, MEMORY) or n.startswith("hugepages-")}


def _statuses(status: PodStatus | None) -> dict[str, ContainerStatus]:
    """The containers that say what they hold, by name."""
    if status is None:
        return {}
    every = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {entry.name: entry for entry in every if entry.allocated_resources or entry.resources is not None}


def _resize_refused(status: PodStatus | None) -> bool:
    """Whether the kubelet says that the node can never give the pod what it asks for."""
    conditions = status.conditions if status is not None else None
    return any(c.type == RESIZE_PENDING and c.reason == INFEASIBLE for c in conditions or ())
