"""The resources that a pod requests of its node, calculated as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tenon.kube.structs import Container, ContainerStatus, PodSpec, PodStatus, Quantities, ResourceNeeds
from tenon.resources import CPU, MEMORY, PODS, Resources, maximum, to_units, total

_to_units = lru_cache(maxsize=8192)(to_units)

RESIZE_PENDING = "PodResizePending"
INFEASIBLE = "Infeasible"


def units(quantities: Quantities | None) -> Resources:
    """Parse a resource list into integer units. A cache avoids parsing the same few quantities again."""
    return {name: _to_units(name, quantity) for name, quantity in (quantities or {}).items()}


def effective_requests(spec: PodSpec, status: PodStatus | None = None, defaults: Resources | None = None) -> Resources:
    """Return the pod's effective request, which counts the pod itself as one unit of the resource ``pods``.

    Init containers run one after another before the other containers. Sidecars (init containers that always restart)
    keep running next to everything that starts after them. A pod-level request replaces the sum of its containers.
    ``defaults`` are the requests of a container for resources that it does not state.
    """
    container_defaults = defaults or {}
    statuses = _statuses(status)
    refused = bool(statuses) and _resize_refused(status)
    running = total(_container(container, statuses, container_defaults, refused) for container in spec.containers or ())
    if not (spec.init_containers or spec.resources or spec.overhead):  # most pods, and a busy cluster reads many
        running[PODS] = 1
        return running
    sidecars: Resources = {}
    starting: Resources = {}
    for container in spec.init_containers or ():
        own = _container(container, statuses, container_defaults, refused)
        if container.restart_policy == "Always":
            sidecars = total((sidecars, own))
            starting = maximum(starting, sidecars)
        else:
            starting = maximum(starting, total((sidecars, own)))
    requests = maximum(total((running, sidecars)), starting)
    requests.update(_pod_level(spec.resources, requests, status))
    requests = total((requests, units(spec.overhead)))
    requests[PODS] = 1
    return requests


def effective_limits(spec: PodSpec) -> Resources:
    """Return the pod's effective limits, by the same rules as its requests. A container without a limit adds none."""
    running = total(_limits(container.resources) for container in spec.containers or ())
    sidecars: Resources = {}
    starting: Resources = {}
    for container in spec.init_containers or ():
        own = _limits(container.resources)
        if container.restart_policy == "Always":
            sidecars = total((sidecars, own))
            starting = maximum(starting, sidecars)
        else:
            starting = maximum(starting, total((sidecars, own)))
    limits = maximum(total((running, sidecars)), starting)
    limits.update(_limits(spec.resources))
    limits[PODS] = 1
    return limits


def _limits(needs: ResourceNeeds | None) -> Resources:
    return units(needs.limits) if needs is not None else {}


def covers_requests(requests: Mapping[str, int], available: Mapping[str, int]) -> bool:
    """Whether the requested resources are available. Resources that are not requested may be overcommitted."""
    return all(amount <= available.get(name, 0) for name, amount in requests.items() if amount > 0)


def _container(
    container: Container, statuses: Mapping[str, ContainerStatus], defaults: Resources, refused: bool
) -> Resources:
    needs = container.resources
    own = {**defaults, **_with_limits(needs)} if needs is not None else defaults
    status = statuses.get(container.name) if statuses else None
    if status is None:
        return own
    stated_requests = needs.requests if needs is not None else None
    actual = status.resources.requests if status.resources is not None else None
    held_quantities = [
        quantities
        for quantities in (status.allocated_resources, actual)
        if quantities and quantities != stated_requests
    ]
    if not held_quantities:
        return own  # almost always: the container is not being resized
    allocated = maximum(*(units(quantities) for quantities in held_quantities))
    # Like kube-scheduler, use the larger of the allocated and the desired amount, unless the resize is infeasible.
    return {**own, **allocated} if refused else maximum(own, allocated)


def _with_limits(needs: ResourceNeeds) -> Resources:
    """Return the requests. A limit replaces a missing request, as the API server defaults it."""
    return {**units(needs.limits), **units(needs.requests)}


def _pod_level(needs: ResourceNeeds | None, containers: Resources, status: PodStatus | None) -> Resources:
    if needs is None:
        return {}
    limits = {name: amount for name, amount in units(needs.limits).items() if name not in containers}
    own = {**limits, **units(needs.requests)}
    if own and status is not None and status.resources is not None:
        allocated = maximum(units(status.allocated_resources), units(status.resources.requests))
        own = {**own, **allocated} if _resize_refused(status) else maximum(own, allocated)
    return {n: amount for n, amount in own.items() if n in (CPU, MEMORY) or n.startswith("hugepages-")}


def _statuses(status: PodStatus | None) -> dict[str, ContainerStatus]:
    """Return the containers that report allocated resources, by name."""
    if status is None:
        return {}
    every = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {entry.name: entry for entry in every if entry.allocated_resources or entry.resources is not None}


def _resize_refused(status: PodStatus | None) -> bool:
    """Whether the kubelet reports that the node can never satisfy the pod's resize."""
    conditions = status.conditions if status is not None else None
    return any(c.type == RESIZE_PENDING and c.reason == INFEASIBLE for c in conditions or ())
