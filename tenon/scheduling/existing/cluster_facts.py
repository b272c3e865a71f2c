"""What many plans of one cluster share: what they need to know of its nodes, and what its NodePools can launch."""

from __future__ import annotations

from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Pool, Problem
from tenon.scheduling.offerings.daemons import Daemon
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.offerings.type_table import TypeTable
from tenon.scheduling.pods.blast_radius import BlastRadius
from tenon.scheduling.pods.node_facts import NodeFacts
from tenon.scheduling.pods.topology import Topology


class ClusterFacts:
    """Lives as long as one search. It grows with what the search asks."""

    def __init__(self) -> None:
        """Start without knowledge."""
        self.nodes = NodeFacts()
        self._templates: dict[tuple[object, ...], tuple[tuple[object, ...], Template]] = {}

    def template(
        self,
        problem: Problem,
        pool: Pool,
        table: TypeTable,
        topology: Topology,
        daemons: list[Daemon],
        shares: BlastRadius,
        expired: Expired,
    ) -> Template:
        """Return the template of a pool for a batch: that of an earlier one if nothing of the batch is in it."""

        def make() -> Template:
            return Template(
                pool,
                daemons,
                table,
                problem.min_values_best_effort,
                node_charge=problem.node_charge,
                shares=shares,
                expired=expired,
            )

        is_shared = any(pool is own_pool for own_pool in problem.pools)
        if not is_shared or pool.limits or shares.limited or topology.of_daemons:
            return make()  # a pool that the plan divided by reservations is an object of this plan alone
        parts = (pool, table, expired, *problem.daemons)
        key = (*map(id, parts), problem.min_values_best_effort, problem.node_charge)
        parts_and_template = self._templates.get(key)
        if parts_and_template is None:
            template = make()
            if not template.daemons_are_settled:
                return template  # its states refer to the pods that asked for them
            parts_and_template = self._templates[key] = (parts, template)  # with the parts, so that ids stay their own
        return parts_and_template[1]
