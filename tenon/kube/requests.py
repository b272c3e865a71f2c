"""What a pod asks of a node: the effective request that the kube-scheduler counts, and its host ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from tenon.kube.structs import Container, ContainerStatus, PodSpec, PodStatus, Quantities, ResourceNeeds
from tenon.resources import CPU, MEMORY, PODS, Resources, maximum, to_units, total

_to_units = lru_cache(maxsize=8192)(to_units)


def units(quantities: Quantities | None) -> Resources:
    """A resource list in integer units; the few texts that a cluster uses are parsed once."""
    return {name: _to_units(name, quantity) for name, quantity in (quantities or {}).items()}


def effective_requests(spec: PodSpec, status: PodStatus | None = None, defaults: Resources | None = None) -> Resources:
    """The pod's request, itself counted as one of the resource ``pods``.

    Init containers run one after another before the others, sidecars (init containers that restart always) run on
    beside everything that starts after them. A resource that the pod as a whole asks for replaces the containers' sum.
    ``defaults`` is what a container requests that states nothing of a resource.
    """
    given = defaults or {}
    allocated = _allocated(status)
    running = total(_container(container, allocated, given) for container in spec.containers or ())
    sidecars: Resources = {}
    starting: Resources = {}
    for container in spec.init_containers or ():
        own = _container(container, allocated, given)
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


def _container(container: Container, allocated: Mapping[str, Resources], defaults: Resources) -> Resources:
    needs = container.resources
    own = {**defaults, **_with_limits(needs)} if needs is not None else defaults
    # A container being resized in place holds the larger of what it has and what it asks for.
    return maximum(own, allocated[container.name]) if container.name in allocated else own


def _with_limits(needs: ResourceNeeds) -> Resources:
    """Requests; a limit stands in where there is no request, as the API server would have it."""
    return {**units(needs.limits), **units(needs.requests)}


def _pod_level(needs: ResourceNeeds | None, containers: Resources) -> Resources:
    if needs is None:
        return {}
    limits = {name: amount for name, amount in units(needs.limits).items() if name not in containers}
    stated = {**limits, **units(needs.requests)}
    return {n: amount for n, amount in stated.items() if n in (CPU, MEMORY) or n.startswith("hugepages-")}


def _allocated(status: PodStatus | None) -> dict[str, Resources]:
    if status is None:
        return {}
    every: Iterable[ContainerStatus] = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    return {entry.name: units(entry.allocated_resources) for entry in every if entry.allocated_resources}
