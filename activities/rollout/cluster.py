"""What the activity of rollouts reads of the cluster. The leader's cache has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenon.apis.nodepool import NodePool
from tenon.apis.noderollout import NodeRollout
from tenon.rollout.gates import WaitingPod
from tenon.rollout.nodes import PoolNode


@dataclass(frozen=True, slots=True)
class ObservedPoolNode:
    """A NodeClaim of a NodePool, and what its Node and the pods there show."""

    node: PoolNode
    node_name: str = ""
    """The name of its Node; empty before it has one."""
    waiting_pods: Sequence[WaitingPod] = ()
    faults: frozenset[str] = frozenset()
    """The conditions of the Node that are faults, as type and status."""


@dataclass(frozen=True, slots=True)
class ObservedRollout:
    """A NodeRollout, and what is wrong with it."""

    model: NodeRollout | None
    """None if it cannot be read."""
    uid: str
    status_rows: Sequence[object] = ()
    """Its status.nodePools as JSON."""
    problems: Sequence[str] = ()


class RolloutCluster(Protocol):
    """The cluster as rollouts see it."""

    def synced(self) -> bool:
        """Whether every resource has been read completely once."""

    def rollout(self, name: str) -> ObservedRollout | None:
        """The NodeRollout of this name; None if it does not exist."""

    def pools_of(self, rollout: str) -> list[NodePool]:
        """The NodePools that follow this NodeRollout, by name."""

    def governed_by(self, rollout: str) -> set[str]:
        """The names of these NodePools, also of those that cannot be read."""

    def newest(self, pool: NodePool) -> str:
        """The version that the specs describe now; empty while its class is not ready, and until it is recorded."""

    def nodes_of(self, pool: str) -> list[ObservedPoolNode]:
        """The NodeClaims of a NodePool."""

    def refusal(self, pool: str, version: str) -> str:
        """Why the last launch of a version failed, in EC2's words; empty if it did not fail, or none was tried."""

    def in_version(self, pool: NodePool, version: str) -> NodePool | None:
        """A NodePool in a version of it; None if that is not recorded."""

    def closed(self, pool: NodePool) -> str:
        """Why a NodePool launches nothing by schedule, and until when, in a clause; empty if it does."""

    def frozen(self, pool: NodePool) -> str:
        """Which DisruptionFreeze holds for a NodePool and until when, in a clause; empty if none does."""
