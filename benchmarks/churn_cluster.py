"""A model cluster with a virtual clock, which provisions and disrupts with the decisions of `tenon`.

It stands in for the API server, kube-scheduler, EC2 and the workflows: instances are ready a while after their launch,
and disruption commands run step by step as `workflows` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from benchmarks.catalogue import ec2_pool
from benchmarks.churn_disruption import Disruption, Pace, Placement
from benchmarks.churn_load import Change
from benchmarks.churn_record import Record
from benchmarks.churn_scheduler import Scheduler
from benchmarks.churn_state import POOL, ClusterState
from benchmarks.churn_workloads import Workloads
from benchmarks.wasteful import FAMILIES
from tenon.apis.nodepool import Budget, ConsolidationPolicy
from tenon.disruption.model import PoolPolicy
from tenon.scheduling.bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Pool, Problem

SAMPLE = 600.0
DEFAULT_PACE = Pace()


def six_families() -> Pool:
    """Return an on-demand NodePool of six common instance families.

    With all of EC2's types, a look takes about four times as long and a day of looks far too long.
    """
    pool = ec2_pool()
    types = [kind for kind in pool.instance_types if kind.name.partition(".")[0] in FAMILIES]
    return replace(pool, instance_types=types)


class ModelCluster:
    """The cluster. `run` plays the changes until the end."""

    def __init__(
        self,
        pool: Pool,
        policy: ConsolidationPolicy,
        *,
        consolidate_after: float = 60.0,
        budget: str = "10%",
        look_every: float = 10.0,
        placement: Placement = "planned",
        pace: Pace = DEFAULT_PACE,
    ) -> None:
        """Set what the NodePool says.

        Args:
            pool: the NodePool and its instance types.
            policy: its consolidationPolicy.
            consolidate_after: its consolidateAfter in seconds.
            budget: the nodes of its budget.
            look_every: seconds between two looks for nodes to disrupt.
            placement: where evicted pods go: the planned node if it has room, or the emptiest as kube-scheduler does.
            pace: how the commands of a look begin.
        """
        self._state = ClusterState(pool)
        self._scheduler = Scheduler(self._state)
        self._workloads = Workloads(self._state, self._scheduler.schedule)
        self._look_every = look_every
        self._disruption = Disruption(
            self._state,
            self._scheduler,
            PoolPolicy(POOL, timedelta(seconds=consolidate_after), (Budget(nodes=budget),), policy),
            look_every=look_every,
            placement=placement,
            pace=pace,
        )

    def run(self, changes: Iterable[tuple[float, Change]], seconds: float) -> Record:
        """Play the changes and return what happened in these seconds."""
        clock = self._state.clock
        for time, change in changes:
            clock.at(time, lambda change=change: self._workloads.apply(change))  # type: ignore[misc]
        clock.at(self._look_every, self._disruption.look)
        clock.at(SAMPLE, self._sample)
        clock.run(seconds, self._state.spend)
        return self._state.record

    def price_over_repack(self) -> float:
        """Return what all instances cost, over the price of new nodes for the same pods."""
        pods = [state.pod for state in self._state.pods.values()]
        return self._state.price / sum(claim.price for claim in solve(Problem(pods, [self._state.pool])).claims)

    def _sample(self) -> None:
        """Note the cost, and the least that nodes for the pods of this moment can cost."""
        pods = [state.pod for state in self._state.pods.values()]
        self._state.record.samples.append(
            {
                "hour": round(self._state.clock.now / 3_600, 2),
                "pods": len(pods),
                "nodes": len(self._state.instances),
                "price": round(self._state.price, 4),
                "lowerBound": round(lower_bound(Problem(pods, [self._state.pool])), 4),
            }
        )
        self._state.clock.after(SAMPLE, self._sample)
