"""The new nodes of static NodePools: one for each node that a command replaces, within ``limits.nodes`` (DIS-02)."""

from __future__ import annotations

from tenon.apis.nodepool import NODES
from tenon.disruption.model import ClusterModel, Situation
from tenon.scheduling.empty_node import NoEmptyNodeError, empty_node_problem, plan_empty_node
from tenon.scheduling.model import PlannedClaim
from tenon.scheduling.reservations import reservation_of, with_places_taken


class StaticReplacements:
    """What a pass may still buy for the nodes of static NodePools that it replaces."""

    def __init__(self, situation: Situation, model: ClusterModel) -> None:
        self._situation = situation
        self._model = model
        self._room: dict[str, int] = {}
        self._planned: dict[str, PlannedClaim | str] = {}
        self._bought: list[PlannedClaim] = []

    def next(self, pool: str) -> PlannedClaim | str:
        """Return the new node for one more node of a static NodePool, or why there can be none beside it."""
        if pool not in self._room:
            self._room[pool] = _room(pool, self._situation, self._model)
        if self._room[pool] <= 0:
            return f"NodePool {pool} has more nodes than replicas, or limits.nodes leaves no room"
        if pool not in self._planned:
            self._planned[pool] = self._plan(pool)
        replacement = self._planned[pool]
        if isinstance(replacement, str):
            return replacement
        self._bought.append(replacement)
        if reservation_of(replacement):
            self._planned.clear()  # the next node may need another place
        self._room[pool] -= 1
        return replacement

    def _plan(self, pool: str) -> PlannedClaim | str:
        try:
            (remaining,) = with_places_taken([self._model.static_pools[pool]], self._bought)
            return plan_empty_node(empty_node_problem(self._model.problem, remaining))
        except NoEmptyNodeError as error:
            return f"no replacement can be bought: {error}"


def _room(pool: str, situation: Situation, model: ClusterModel) -> int:
    """Return how many nodes of a static pool may be replaced now.

    While it has more nodes than replicas, its controller removes some first. A replica that is missing, also because a
    command has yet to create the replacement, counts as a node.
    """
    replicas = situation.policies[pool].replicas or 0
    members = [node for node in situation.nodes if node.pool == pool]
    staying = sum(not node.leaving and node.claim not in situation.under_command for node in members)
    static_pool = model.static_pools.get(pool)
    if staying > replicas or static_pool is None:
        return 0
    limit = (static_pool.limits or {}).get(NODES)
    return len(members) if limit is None else limit - len(members) - (replicas - staying)
