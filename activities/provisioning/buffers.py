"""The room for CapacityBuffers: the pods that stand for them, and where the last simulation placed these pods.

Nothing is reserved: any pod may take the room, and the next simulation finds it gone. A simulation's result is a reason
to plan or to keep a node, never a guarantee. Every plan simulates all buffers again, on a cluster that includes the
NodeClaims of earlier plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from tenon.kube.pod import Pod
from tenon.provisioning.buffer_status import BufferSimulation
from tenon.provisioning.solving import buffer_pods
from tenon.resources import Resources, add
from tenon.scheduling.model import Plan


class BufferRoom:
    """What buffers request and have. It is known after their pods have been resolved and simulated once."""

    def __init__(self, *, awaited: bool = False) -> None:
        """``awaited``: nothing is known before the pods have been resolved and simulated. Otherwise there are none."""
        self._pods: dict[str, Pod] = {}
        self._resolved = not awaited
        self._simulated = not awaited
        self._requests: Mapping[str, Resources] = {}
        self._lacking: tuple[str, ...] = ()
        self._rooms: dict[str, BufferSimulation] = {}
        self.simulations = 0
        """The number of simulations so far. A simulation that started earlier uses it to detect that it is outdated."""

    @property
    def known(self) -> bool:
        """Whether it is known which nodes hold room for buffers."""
        return self._resolved and self._simulated

    def keep(self, pods: Sequence[Pod], *, whole: bool = True) -> None:
        """Replace the pods that stand for buffers, identified by UID. If not ``whole``, there may be more of them."""
        self._pods = {pod.uid: pod for pod in pods}
        self._rooms = {key: room for key, room in self._rooms.items() if key in buffer_pods(pods)}
        self._resolved = self._resolved or whole

    def pods(self) -> list[Pod]:
        """All pods that stand for buffers."""
        return list(self._pods.values())

    def simulated(
        self,
        plan: Plan,
        ready: Collection[str],
        claims: Sequence[str] = (),
        *,
        bought: bool = True,
        plan_pods: Iterable[Pod] | None = None,
    ) -> None:
        """Record where a plan found room.

        Args:
            plan: a plan for pods of buffers.
            ready: the names of the nodes that are initialized.
            claims: the names of the NodeClaims that were written for the plan, in the plan's order.
            bought: whether the plan could buy nodes. A plan that only looked for room learns nothing new about what
                prevents buying, so the earlier reasons stay.
            plan_pods: the pods that the plan is for; None if they include all of `pods`. Pods that came later have no
                room yet.
        """
        nodes_by_buffer: Counter[str] = Counter()
        starting_nodes: Counter[str] = Counter()
        requests: dict[str, Resources] = {}
        for name, placed in plan.placements.items():
            for key, pods in buffer_pods(placed).items():
                (nodes_by_buffer if name in ready else starting_nodes)[key] += len(pods)
                requests[name] = add(requests.get(name, {}), *(pod.requests for pod in pods))
        for name, planned in zip(claims, plan.claims, strict=True):
            for key, pods in buffer_pods(planned.pods).items():
                starting_nodes[key] += len(pods)
                requests[name] = add(requests.get(name, {}), *(pod.requests for pod in pods))
        without = plan.unschedulable.keys() | plan.unreached
        later = self._pods.keys() - {pod.uid for pod in plan_pods} if plan_pods is not None else frozenset()
        lacking = [pod for pod in self._pods.values() if pod.key in without or pod.uid in later]
        refused = {pod.buffer: str(plan.unschedulable[pod.key]) for pod in lacking if pod.key in plan.unschedulable}
        if not bought:
            refused = {key: self._rooms[key].refused for key in refused if key in self._rooms}
        self._rooms = {
            key: BufferSimulation(nodes_by_buffer[key], starting_nodes[key], refused.get(key, ""))
            for key in buffer_pods(list(self._pods.values()))
        }
        self._requests = requests
        self._lacking = tuple(pod.uid for pod in lacking)
        self._simulated = True
        self.simulations += 1

    def lacking(self) -> list[Pod]:
        """The pods for which the last simulation found no room."""
        return [self._pods[uid] for uid in self._lacking if uid in self._pods]

    def hosts(self) -> frozenset[str]:
        """The names of the Nodes and NodeClaims on which the last simulation put pods of buffers."""
        return frozenset(self.requests())

    def requests(self) -> Mapping[str, Resources]:
        """What the pods of buffers request on each of these Nodes and NodeClaims."""
        return self._requests if self._pods else {}

    def rooms(self) -> Mapping[str, BufferSimulation]:
        """Buffer (``namespace/name``) to the room that the last simulation found for it."""
        return self._rooms
