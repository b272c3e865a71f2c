"""The situation as every method needs it: without a model of the cluster, so it is cheap enough for once a second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.disruption.repair_source import RepairSource, no_repair, repair_now
from activities.provisioning.buffers import BufferRoom
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.disruption.commands.open_commands import awaiting_replacement, claims_of, hosts_of
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import policies_of
from tenon.disruption.rules.approvals import approvals_of
from tenon.disruption.situation import Situation
from tenon.messages.disruption import OpenCommand

FreezeSource = Callable[[], Sequence[DisruptionFreeze]]
"""Returns all DisruptionFreezes of the cluster, which may change while the worker runs."""


def _no_freezes() -> Sequence[DisruptionFreeze]:
    return ()


class SituationReader:
    """Reads the situation as the cluster is now. Those who move pods add the model, and what passes know."""

    def __init__(
        self,
        view: ClusterView,
        now: Callable[[], datetime] = utc_now,
        nominated_nodes: Callable[[], Collection[str]] = frozenset,
        buffers: BufferRoom | None = None,
        repair: RepairSource = no_repair,
        freezes: FreezeSource = _no_freezes,
    ) -> None:
        """``nominated_nodes``: returns the names of Nodes and NodeClaims that pods are nominated for.

        ``buffers``: where CapacityBuffers keep room. ``repair``: what node repair does. ``freezes``: returns the
        DisruptionFreezes as they are now.
        """
        self._view = view
        self._now = now
        self._nominated_nodes = nominated_nodes
        self._buffers = buffers or BufferRoom()
        self._repair = repair
        self._freezes = freezes

    def is_ready(self) -> bool:
        """Whether the cluster is known, and which nodes hold room for buffers: before, a node may only look empty."""
        return self._view.synced() and self._buffers.known

    def read(self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]) -> Situation:
        """Return what every method decides from.

        Args:
            nodes: all nodes.
            open_commands: the open and the failed commands, by NodeClaim.
        """
        return Situation(
            nodes=nodes,
            policies=policies_of(self._view.node_pools(), self._freezes()),
            now=self._now(),
            under_command=claims_of(open_commands, postponed=False),
            approvals=approvals_of(open_commands),
            awaiting_replacement=awaiting_replacement(open_commands),
            nominated=frozenset(self._nominated_nodes()) | hosts_of(open_commands),
            buffer_hosts=self._buffers.hosts(),
            repair=repair_now(self._repair, nodes),
            rollouts=self._view.rollouts(),
        )
