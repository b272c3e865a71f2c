"""Divides the price of a node among the pods on it, by what they request.

The weights are those of AWS's split cost allocation data for EKS (AWS Data Exports user guide, "Example of split cost
allocation data", and the one for accelerated instances), so that the shares agree with the cost and usage report:

- A vCPU weighs 9 and a GiB of memory weighs 1. AWS takes that from the prices of Fargate.
- On a node with accelerators, one of them weighs 9, a vCPU 0.9 and a GiB 0.1.

The share of a pod, with ``w`` as the weight of a resource, is

    price x sum of (w x requested) / sum of (w x max(allocatable, requested by all pods))

AWS takes the larger one of requests and use. Tenon knows no use, so it takes requests. A pod without requests costs
nothing, and what no pod requests is idle. The part of the idle room that CapacityBuffers hold is headroom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tenon.kube.records import PodRecord
from tenon.money import divide
from tenon.resources import CPU, MEMORY, Resources

_GIB = 2**30
_CPU_WEIGHT, _MEMORY_WEIGHT, _ACCELERATOR_WEIGHT = 9, 1, 90
"""Of a vCPU, a GiB and an accelerator. Only their proportions count, so all three are whole numbers."""
ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")
NEURON, NEURON_CORES = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
"""A pod may request a Neuron device, or some of its cores."""
_WEIGHTS = {
    CPU: _CPU_WEIGHT * _GIB,  # in millicores
    MEMORY: _MEMORY_WEIGHT * 1000,  # in bytes
    **dict.fromkeys(ACCELERATORS, _ACCELERATOR_WEIGHT * 1000 * _GIB),
}
_OF_CRON_JOB = re.compile(r"Job/(.+)-[0-9]{8,10}")
"""A CronJob names its Jobs by the minute, and each would be a workload of its own."""


class ConsumerKind(StrEnum):
    """For what a part of a node's price is paid."""

    PODS = "pods"
    DAEMONS = "daemons"
    """Pods of DaemonSets, and static pods, which each node has."""
    HEADROOM = "headroom"
    """Room that CapacityBuffers keep free."""
    IDLE = "idle"
    """Room that no pod requests."""
    STARTING = "starting"
    """The instance runs, and its Node has not joined yet."""
    UNMEASURED = "unmeasured"
    """The instance ran, and the record does not say who used it."""


PAID_FOR_PODS = (ConsumerKind.PODS, ConsumerKind.DAEMONS)
"""What namespaces cause."""


@dataclass(frozen=True, slots=True, order=True)
class Consumer:
    """Who causes a part of the cost."""

    kind: ConsumerKind
    namespace: str = ""
    workload: str = ""
    """As ``Kind/name``; empty for pods without a controller."""
    label: str = ""
    """The value of the pods' label that the cost is divided by; empty without one."""


IDLE, HEADROOM, STARTING = Consumer(ConsumerKind.IDLE), Consumer(ConsumerKind.HEADROOM), Consumer(ConsumerKind.STARTING)


@dataclass(frozen=True, slots=True)
class Load:
    """What a consumer requests of a node."""

    consumer: Consumer
    requests: Resources


@dataclass(frozen=True, slots=True)
class PricedNode:
    """A node, or an instance that is to become one, with its price and its pods."""

    name: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: int | None
    """Nano-dollars an hour; None if it is not known."""
    allocatable: Resources = field(default_factory=dict)
    loads: Sequence[Load] = ()
    headroom: Resources = field(default_factory=dict)
    """What pods of CapacityBuffers would request of it."""
    is_starting: bool = False
    claim: str = ""
    instance: str = ""
    launched_at: datetime | None = None
    is_stopped: bool = False
    """Its instance is stopped, and ``price`` is that of its disks."""
    running_price: int | None = None
    """Nano-dollars an hour while its instance runs; None if it is not known."""
    stopped: str = ""
    """When its instance was stopped (`tenon.kube.stopped_times`)."""


def shares(node: PricedNode) -> dict[Consumer, int]:
    """Return the parts of the node's price, which add up to it; empty if the price is not known."""
    if node.price is None:
        return {}
    if node.is_starting:
        return {STARTING: node.price}
    return split(node.price, node.allocatable, node.loads, node.headroom)


def split(
    price: int, allocatable: Mapping[str, int], loads: Iterable[Load], headroom: Mapping[str, int]
) -> dict[Consumer, int]:
    """Divide the price of a node. The parts add up to it; those of consumers that request nothing are left out.

    Args:
        price: nano-dollars an hour.
        allocatable: what pods can request of the node.
        loads: what they request.
        headroom: what CapacityBuffers keep free. Pods may have taken it: then it is headroom no more.
    """
    devices_by_core = (allocatable.get(NEURON, 0), allocatable.get(NEURON_CORES, 0))
    units: dict[Consumer, int] = {}
    requested = dict.fromkeys(_WEIGHTS, 0)
    for load in loads:
        weights = _weighed(load.requests, devices_by_core)
        units[load.consumer] = units.get(load.consumer, 0) + sum(weights.values())
        requested = {name: requested[name] + weight for name, weight in weights.items()}
    whole, buffers = _weighed(allocatable, (0, 0)), _weighed(headroom, devices_by_core)
    free = {name: max(0, weight - requested[name]) for name, weight in whole.items()}
    units[HEADROOM] = sum(min(free[name], buffers[name]) for name in free)
    units[IDLE] = sum(free.values()) - units[HEADROOM]
    consumers = sorted(consumer for consumer, weight in units.items() if weight)
    if not consumers:
        return {IDLE: price}
    parts = divide(price, [units[consumer] for consumer in consumers])
    return dict(zip(consumers, parts, strict=True))


def _weighed(amounts: Mapping[str, int], devices_by_core: tuple[int, int]) -> dict[str, int]:
    """Return what each resource of a list weighs. A core of a Neuron device weighs a part of the device."""
    weights = {name: weight * max(0, amounts.get(name, 0)) for name, weight in _WEIGHTS.items()}
    devices, cores = devices_by_core
    if cores and not weights[NEURON]:
        weights[NEURON] = _WEIGHTS[NEURON] * devices * max(0, amounts.get(NEURON_CORES, 0)) // cores
    return weights


def load_of(pod: PodRecord, label: str = "") -> Load:
    """Return what a pod requests, and for whom. ``label``: the key of the label that the cost is divided by."""
    kind = ConsumerKind.DAEMONS if pod.daemon or pod.mirror else ConsumerKind.PODS
    workload = _OF_CRON_JOB.sub(r"CronJob/\1", pod.pod.workload)
    value = pod.pod.labels.get(label, "") if label else ""
    return Load(Consumer(kind, pod.pod.namespace, workload, value), pod.pod.requests)


def loads_of(pods: Iterable[PodRecord], label: str = "") -> list[Load]:
    """Return the loads of the pods that hold room on their node: those that have not terminated."""
    return [load_of(pod, label) for pod in pods if not pod.terminal]
