"""Computes the CPU and memory usage of each pod from the annotation of its Deployment. The result is deterministic.

``90%``: each pod uses this part of its CPU requests, however many pods there are. ``1500m`` or ``1.5``: all running
pods of the Deployment together use this many CPUs, in equal shares, like the load of a web site's visitors. No
container uses more than its limit. Memory usage always equals the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sandbox.metrics import LOAD
from tenon.kube.owners import controller, owners
from tenon.kube.structs import Object
from tenon.resources import CPU, MEMORY, parse_resources, to_units

IDLE = "0%"
_LOAD = re.compile(r"(?P<percent>\d{1,5}(\.\d+)?)%|(?P<cpu>\d+(\.\d+)?m?)")


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a Deployment's pods: a percentage of each pod's requests, or millicores of all pods together."""

    percent: float = 0.0
    millicores: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """The usage of one container."""

    container: str
    millicores: int
    memory: int


def parse_load(text: str) -> Load:
    """Parse a load in the notation that users write.

    Raises:
        ValueError: the text is not a load.
    """
    fullmatch = _LOAD.fullmatch(text.strip())
    if fullmatch is None:
        raise ValueError(
            f"{text!r} is not a load: write 90% for a part of what each pod requests, or 1500m or 1.5 for the CPUs "
            "that all pods use together"
        )
    if fullmatch["percent"]:
        return Load(percent=float(fullmatch["percent"]))
    return Load(millicores=to_units(CPU, fullmatch["cpu"]))


def usage(
    pods: Sequence[Object], replica_sets: Iterable[Object], deployments: Iterable[Object]
) -> dict[str, list[Use]]:
    """The usage of each running pod's containers, by ``namespace/name``.

    Args:
        pods: all pods of the namespaces in question, because the pods of one Deployment share its load.
        replica_sets: the ReplicaSets between pods and Deployments.
        deployments: Deployments that may have a load. A load that cannot be read counts as none.
    """
    loads = {uid(deployment): _load_of(deployment) for deployment in deployments}
    owners = {uid(replica_set): owner for replica_set in replica_sets if (owner := _controller(replica_set)) in loads}
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    of = {_key(pod): owners.get(_controller(pod), "") for pod in running}
    sharing = {owner: sum(1 for result in of.values() if result == owner) for owner in set(of.values())}
    return {
        _key(pod): _uses(pod, loads.get(of[_key(pod)], Load()), sharing[of[_key(pod)]])
        for pod in sorted(running, key=_key)
    }


def _load_of(deployment: Object) -> Load:
    try:
        return parse_load((deployment["metadata"].get("annotations") or {}).get(LOAD, IDLE))
    except ValueError:
        return Load()


def _uses(pod: Object, load: Load, sharing: int) -> list[Use]:
    containers = pod["spec"]["containers"]
    resources = [parse_resources((container.get("resources") or {}).get("requests")) for container in containers]
    limits = [parse_resources((container.get("resources") or {}).get("limits")) for container in containers]
    requested = sum(resource.get(CPU, 0) for resource in resources)
    uses = []
    for container, own, limit in zip(containers, resources, limits, strict=True):
        if load.millicores is None:
            cpu = round(own.get(CPU, 0) * load.percent / 100)
        else:
            part = own.get(CPU, 0) / requested if requested else 1 / len(containers)
            cpu = round(load.millicores / sharing * part)
        uses.append(Use(container["name"], min(cpu, limit.get(CPU, cpu)), own.get(MEMORY, 0)))
    return uses


def uid(manifest: Object) -> str:
    """The UID of an object."""
    return str(manifest["metadata"]["uid"])


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _controller(manifest: Object) -> str:
    """The UID of the object's controller. Empty if it has none."""
    owner = controller(owners(manifest))
    return owner.uid if owner is not None else ""
