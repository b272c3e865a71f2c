"""The interface of a disruption method: candidates in, commands out.

A method says of a node what its reason is, and chooses among the nodes that nothing keeps. What keeps a node is not its
business: `tenon.disruption.deciding` asks the table `tenon.disruption.rules.blockers`, says in events what it answers,
runs each method in turn, and rejects proposals that break a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tenon.apis.reasons import Reason
from tenon.disruption.decision import Proposal
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation


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

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        """Return why the method would remove the node, such as ``it is empty``; empty if it has no reason to.

        The situation may have no model. Then the nodes alone decide.
        """
        ...

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return the commands to start now.

        Args:
            eligible: the nodes with a cause that nothing in the table keeps, sorted by name.
            budgets: how many more nodes of each NodePool may be disrupted for this reason. Each chosen node reduces it.
            situation: the cluster, with all its nodes.
        """
        ...
