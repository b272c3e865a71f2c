"""The interface of a disruption method: candidates in, commands out.

A method sees only nodes that no rule about the node itself excludes (`eligible`), and a budget for its own reason. It
does not decide about other methods: `tenon.disruption.deciding` runs each in turn and rejects proposals that break a
rule.

These rules ignore the pods on a node. A method that removes nodes with pods must itself check what protects them.
`NodeDetail` has that for every node, `ManagedNode` only for empty nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tenon.apis.reasons import Reason
from tenon.disruption.model import ManagedNode, Proposal, Situation
from tenon.disruption.pool_budgets import PoolBudgets


class Method(Protocol):
    """One way to find nodes to remove. A method keeps no state: the same input gives the same commands."""

    @property
    def name(self) -> str:
        """The name that `tenon simulate` and logs show."""
        ...

    @property
    def reason(self) -> Reason:
        """The reason that budgets, conditions and metrics name."""
        ...

    @property
    def consolidation_type(self) -> str:
        """The label ``consolidation_type`` of the metrics of evaluations. Each command has its own."""
        ...

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return the commands to start now.

        Args:
            eligible: the initialized nodes of known NodePools that are not leaving, protected by an annotation of Node
                or NodeClaim, under a command or nominated for pods; sorted by name. Their pods are not considered. For
                a forceful reason, also those that are protected, nominated or postponed.
            budgets: how many more nodes of each NodePool may be disrupted for this reason. Each chosen node reduces it.
            situation: the cluster, with all its nodes.
        """
        ...
