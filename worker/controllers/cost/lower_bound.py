"""The least that any nodes could cost for the pods that run now: how far the bill is from the best that can be.

It is the bound of `tenon simulate`: it knows neither existing nodes nor PodDisruptionBudgets nor affinity between pods,
so no cluster reaches it. It is computed in a thread, once in an interval.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activities.cluster_view.interfaces import Types
from activities.provisioning.offerings import instance_types_by_pool
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of
from tenon.provisioning.readiness import usable_pools
from worker.cache.planning_view import PlanningView
from worker.cache.snapshot import Snapshot


class LowerBound:
    """Computes the bound of a cluster."""

    def __init__(self, view: PlanningView, types: Types, policy: PlanPolicy) -> None:
        self._view = view
        self._types = types
        self._policy = policy

    async def compute(self) -> float | None:
        """Return dollars an hour; None if no NodePool is usable.

        Raises:
            EC2Error: the instance types cannot be read.
        """
        pools = usable_pools(self._view.node_pools(), self._view.node_class, self._view)
        if not pools:
            return None
        pools_with_types = (await instance_types_by_pool(self._view, self._types, pools)).pools_with_types
        snapshot: Snapshot = self._view.snapshot()

        def bound() -> float:
            from tenon.scheduling.bound.lower_bound import lower_bound  # loads a solver that only this needs

            on_nodes = snapshot.pods_by_claim().values()
            movable = [
                replace(pod.pod, node_name="")
                for pods in on_nodes
                for pod in pods
                if not (pod.daemon or pod.mirror or pod.terminal)
            ]
            problem = replace(problem_of(snapshot, movable, pools_with_types, self._policy), nodes=())
            return lower_bound(problem)

        return await asyncio.to_thread(bound)
