"""The room that CapacityBuffers keep: the pods that they stand for, and where the last simulation put them.

Nothing is reserved: whoever comes takes the room, and the next simulation finds it gone. What a simulation says here is
a reason to plan and a reason to leave a node alone, never a promise; every plan simulates all of it anew, on a cluster
in which the NodeClaims of earlier plans count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tenon.kube.pod import Pod
from tenon.provisioning.buffer_status import Room
from tenon.provisioning.solving import buffer_pods
from tenon.scheduling.model import Plan


class BufferRoom:
    """What buffers ask for and have. It is known once their pods are, and have been simulated."""

    def __init__(self, *, gate: bool = False) -> None:
        """``gate``: whether there may be buffers at all."""
        self._pods: dict[str, Pod] = {}
        self._resolved = not gate
        self._simulated = not gate
        self._hosts: frozenset[str] = frozenset()
        self._lacking: tuple[str, ...] = ()
        self._rooms: dict[str, Room] = {}
        self.simulations = 0
        """Counts what was learnt, so that a simulation which began before can tell that it is out of date."""

    @property
    def known(self) -> bool:
        """Whether it can be said which nodes have room that a buffer wants."""
        return self._resolved and self._simulated

    def keep(self, pods: Sequence[Pod], *, whole: bool = True) -> None:
        """These are the pods that buffers stand for, told apart by UID; not ``whole``: there may be more of them."""
        self._pods = {pod.uid: pod for pod in pods}
        self._rooms = {key: room for key, room in self._rooms.items() if key in buffer_pods(pods)}
        self._resolved = self._resolved or whole

    def pods(self) -> list[Pod]:
        """All pods that buffers stand for."""
        return list(self._pods.values())

    def simulated(self, plan: Plan, ready: Collection[str], claims: Sequence[str] = (), *, bought: bool = True) -> None:
        """Take over where a plan found room.

        Args:
            plan: one that had all of `pods` among its pods.
            ready: the names of the nodes that are initialized.
            claims: the names of the NodeClaims that were written for it, in the plan's order.
            bought: whether it could buy. One that only looked for room knows no more of what stands in the way of
                buying than was known before.
        """
        there: Counter[str] = Counter()
        coming: Counter[str] = Counter()
        hosts: set[str] = set()
        for name, placed in plan.placements.items():
            for key, pods in buffer_pods(placed).items():
                (there if name in ready else coming)[key] += len(pods)
                hosts.add(name)
        for name, planned in zip(claims, plan.claims, strict=True):
            for key, pods in buffer_pods(planned.pods).items():
                coming[key] += len(pods)
                hosts.add(name)
        without = plan.unschedulable.keys() | plan.unreached
        lacking = [pod for pod in self._pods.values() if pod.key in without]
        refused = {pod.buffer: plan.unschedulable[pod.key] for pod in lacking if pod.key in plan.unschedulable}
        if not bought:
            refused = {key: self._rooms[key].refused for key in refused if key in self._rooms}
        self._rooms = {
            key: Room(there[key], coming[key], refused.get(key, "")) for key in buffer_pods(list(self._pods.values()))
        }
        self._hosts = frozenset(hosts)
        self._lacking = tuple(pod.uid for pod in lacking)
        self._simulated = True
        self.simulations += 1

    def lacking(self) -> list[Pod]:
        """The pods for which the last simulation found no room."""
        return [self._pods[uid] for uid in self._lacking if uid in self._pods]

    def hosts(self) -> frozenset[str]:
        """The names of the Nodes and NodeClaims on which the last simulation put pods of buffers."""
        return self._hosts if self._pods else frozenset()

    def rooms(self) -> Mapping[str, Room]:
        """By buffer (``namespace/name``), what the last simulation found."""
        return self._rooms
