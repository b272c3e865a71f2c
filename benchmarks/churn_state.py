"""The pods and instances of the model cluster, and the scheduling problem that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from benchmarks.churn_clock import VirtualClock
from benchmarks.churn_load import Workload
from benchmarks.churn_record import Record
from tenon.apis import labels
from tenon.apis.nodepool import NODES
from tenon.kube.pod import Pod
from tenon.resources import total
from tenon.scheduling.model import InstanceType, Node, Pool, Problem

POOL = "default"


@dataclass
class PodState:
    """A pod. Its replacement after an eviction has another name, but the same ``place``, of which evictions count."""

    pod: Pod
    workload: Workload
    place: int
    revision: int
    created: float
    seconds: float = 0.0
    """How long it runs; 0 for ever."""
    node: str = ""
    planned: str = ""
    """The node that a plan chose for it."""


@dataclass
class Instance:
    """A NodeClaim with its instance and Node, which all have one name."""

    name: str
    kind: InstanceType
    zone: str
    capacity_type: str
    price: float
    launched: float
    ready: bool = False
    leaving: bool = False
    quiet_since: float = 0.0
    under_command: bool = False
    disrupted_by: str = ""
    """The command that has tainted it."""
    replacement_for: str = ""
    moved_here: str = "[]"
    """The annotation `tenon.sh/moved-here`."""
    pods: dict[str, PodState] = field(default_factory=dict)


@dataclass
class ClusterState:
    """All of it, and what happened to it."""

    pool: Pool
    clock: VirtualClock = field(default_factory=VirtualClock)
    record: Record = field(default_factory=Record)
    instances: dict[str, Instance] = field(default_factory=dict)
    pods: dict[str, PodState] = field(default_factory=dict)
    pending: dict[str, PodState] = field(default_factory=dict)
    expected: dict[str, dict[str, Pod]] = field(default_factory=dict)
    """By node, pods of an open command that will move there and still run elsewhere."""
    price: float = 0.0
    """Dollars an hour of all instances."""
    last_consolidation: float = float("-inf")
    changed: bool = True
    """Whether anything that matters to disruption changed since the last look."""

    def spend(self, seconds: float) -> None:
        """Count what the instances cost in some seconds."""
        hours = seconds / 3_600
        self.record.dollars += hours * self.price
        self.record.node_hours += hours * len(self.instances)

    def count_nodes(self) -> None:
        """Note how many nodes there are now, because one came or left."""
        self.record.node_changes.append((self.clock.now, len(self.instances)))

    def new_pod(self, like: Pod, workload: str) -> Pod:
        """Return a pod of a workload that is created now."""
        name = f"{workload}-{self.clock.number()}"
        return replace(like, name=name, uid=name, created=self.clock.instant().timestamp())

    def add_pending(self, state: PodState) -> None:
        """Add a pod that waits for a node."""
        self.pods[state.pod.key] = state
        self.pending[state.pod.key] = state

    def delete(self, state: PodState) -> None:
        """Remove a pod."""
        self.changed = True
        self.pods.pop(state.pod.key, None)
        self.pending.pop(state.pod.key, None)
        for pods in self.expected.values():
            pods.pop(state.pod.key, None)
        instance = self.instances.get(state.node)
        if instance is not None:
            instance.pods.pop(state.pod.key, None)
            instance.quiet_since = self.clock.now

    def problem(self, pods: Sequence[Pod]) -> Problem:
        """Return the problem of where pods go."""
        used = total([*(one.kind.capacity for one in self.instances.values()), {NODES: len(self.instances)}])
        return Problem(pods, [replace(self.pool, usage=used)], self.nodes(), namespaces={"default": {}})

    def nodes(self, *, only_ready: bool = False) -> list[Node]:
        """Return the nodes with their pods, and unless ``only_ready`` with those that are on their way."""
        found = []
        for one in self.instances.values():
            if only_ready and not one.ready:
                continue
            pods = [state.pod for state in one.pods.values()]
            if not only_ready:
                pods += [state.pod for state in self.pending.values() if state.planned == one.name]
                pods += self.expected.get(one.name, {}).values()
            found.append(
                Node(
                    one.name,
                    _labels(one),
                    (),
                    one.kind.allocatable,
                    total(pod.requests for pod in pods),
                    initialized=one.ready,
                    pods=tuple(pods),
                    closed=one.leaving or bool(one.disrupted_by),
                )
            )
        return found


def free(instance: Instance) -> dict[str, int]:
    """Return what an instance has room for."""
    used = total(state.pod.requests for state in instance.pods.values())
    return {name: units - used.get(name, 0) for name, units in instance.kind.allocatable.items()}


def _labels(instance: Instance) -> dict[str, str]:
    known = {key: one.values[0] for key, one in instance.kind.requirements.items() if len(one.members) == 1}
    own = {
        labels.INSTANCE_TYPE: instance.kind.name,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
        labels.NODEPOOL: POOL,
        labels.HOSTNAME: instance.name,
    }
    return {**known, **own}
