"""kube-scheduler and provisioning in the model cluster: bind pods, and launch the nodes that Tenon plans for others."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.churn_record import SOON
from benchmarks.churn_state import ClusterState, Instance, PodState, free
from tenon.apis.nodepool import NODES
from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY
from tenon.scheduling.engine import solve
from tenon.scheduling.model import PlannedClaim, Pool, Problem
from tenon.scheduling.type_table import TypeTables

BATCH = 1.0
"""Seconds without a new pending pod after which they are planned (BATCH_IDLE_DURATION)."""
READY = 45.0
"""Seconds from an instance's launch until its Node is initialized."""


class Scheduler:
    """Finds a node for each pod that waits."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._types = {kind.name: kind for kind in state.pool.instance_types}
        self._tables = TypeTables()
        self._plan_at = float("inf")
        self._scheduling = False

    def schedule(self) -> None:
        """Bind pending pods once all that happens at this moment has happened."""
        if not self._scheduling:
            self._scheduling = True
            self._state.clock.after(0.0, self._bind_pending)

    def _bind_pending(self) -> None:
        """Bind the pending pods that fit. The others are planned once no new one came for a while."""
        self._scheduling = False
        refused: set[str] = set()
        for state in list(self._state.pending.values()):
            if state.workload.name in refused and not state.planned:
                continue
            node = self._place_for(state)
            if node is not None:
                self._bind(state, self._state.instances[node])
            elif not state.planned:
                refused.add(state.workload.name)
        if any(not state.planned for state in self._state.pending.values()):
            self._plan_at = self._state.clock.now + BATCH
            self._state.clock.at(self._plan_at, self._plan)

    def _place_for(self, state: PodState) -> str | None:
        planned = self._state.instances.get(state.planned)
        if planned is not None and not planned.ready:
            return None
        if planned is not None and not planned.leaving and not planned.disrupted_by and _fits(state.pod, planned):
            return planned.name
        state.planned = ""
        if state.pod.rules:
            plan = solve(
                Problem([state.pod], [_sold_out(self._state.pool)], self._state.nodes(only_ready=True)),
                tables=self._tables,
            )
            return next(iter(plan.placements), None)
        open_ones = [
            one
            for one in self._state.instances.values()
            if one.ready and not one.leaving and not one.disrupted_by and _fits(state.pod, one)
        ]
        return min(open_ones, key=_load).name if open_ones else None

    def _bind(self, state: PodState, instance: Instance) -> None:
        self._state.changed = True
        del self._state.pending[state.pod.key]
        state.node, state.planned = instance.name, ""
        instance.pods[state.pod.key] = state
        instance.quiet_since = self._state.clock.now
        self._state.record.waits.append(self._state.clock.now - state.created)
        if state.seconds:
            key = state.pod.key
            self._state.clock.after(state.seconds, lambda: self._end(key))

    def _end(self, key: str) -> None:
        """Delete the pod of a job that is done, unless it was evicted: then another pod took its place."""
        if key in self._state.pods:
            self._state.delete(self._state.pods[key])

    def _plan(self) -> None:
        waiting = [state for state in self._state.pending.values() if not state.planned]
        if self._state.clock.now < self._plan_at or not waiting:
            return
        plan = solve(self._state.problem([state.pod for state in waiting]), tables=self._tables)
        for name, pods in plan.placements.items():
            for pod in pods:
                self._state.pending[pod.key].planned = name
        for claim in plan.claims:
            name = self.launch(claim, "pending pods")
            if self._state.clock.now - self._state.last_consolidation <= SOON:
                self._state.record.bought_back += 1
            for pod in claim.pods:
                self._state.pending[pod.key].planned = name
        self._state.record.unschedulable += len(plan.unschedulable)
        if plan.placements:
            self.schedule()

    def launch(self, claim: PlannedClaim, why: str, replacement_for: str = "") -> str:
        """Launch the claim's cheapest type, and return the node's name."""
        capacity_type, kind, zone = claim.offering
        name = f"node-{self._state.clock.number():08}"
        instance = Instance(name, self._types[kind], zone, capacity_type, claim.price, self._state.clock.now)
        instance.replacement_for = replacement_for
        self._state.instances[name] = instance
        self._state.count_nodes()
        self._state.price += instance.price
        self._state.record.launched[why] += 1
        self._state.changed = True

        def ready() -> None:
            instance.ready = True
            instance.quiet_since = self._state.clock.now
            self._state.changed = True
            self.schedule()

        self._state.clock.after(READY, ready)
        return name


def _sold_out(pool: Pool) -> Pool:
    return replace(pool, limits={NODES: 0}, usage={})


def _fits(pod: Pod, instance: Instance) -> bool:
    left = free(instance)
    return all(units <= left.get(name, 0) for name, units in pod.requests.items())


def _load(instance: Instance) -> tuple[float, str]:
    """How full a node is, as kube-scheduler's LeastAllocated scores it."""
    left, room = free(instance), instance.kind.allocatable
    return -sum(left[name] / room[name] for name in (CPU, MEMORY)) / 2, instance.name
