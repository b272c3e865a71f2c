"""Which CSI drivers the nodes have, and how many of their volumes they can attach.

kube-scheduler of Kubernetes 1.37 gives no pod with a volume to a node whose CSINode lacks the volume's driver, if the
CSIDriver says so (`preventPodSchedulingIfMissing`). Such a node can attach no volume of the driver. A node that became
ready a moment ago is about to get the driver's DaemonSet, so it does not count as one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.kube.records import ValueRecord
from worker.cache.table import Table

REGISTERS_WITHIN = 300.0
"""How many seconds after a node became ready its drivers may take to register. Planned pods may take as long
(`TAINTED_FOR` in `activities/provisioning/plan_answers.py`)."""


class CsiDrivers:
    """The tables ``nodes`` (CSINodes) and ``drivers`` (CSIDrivers)."""

    def __init__(self) -> None:
        self.nodes: Table[ValueRecord[Mapping[str, int | None]]] = Table(lambda _key, _before, _after: None)
        self.drivers: Table[ValueRecord[bool]] = Table(lambda _key, _before, _after: self._driver_changed())
        self.required: tuple[str, ...] = ()
        """The drivers without which kube-scheduler gives a node no pods with their volumes."""

    def adopt(self, other: CsiDrivers) -> None:
        """Take over another instance's current content."""
        self.nodes.adopt(other.nodes)
        self.drivers.adopt(other.drivers)
        self.required = other.required

    def limits(self, node_name: str, ready_since: float | None, now: float) -> Mapping[str, int]:
        """How many volumes of each driver the node can attach, as far as it is known.

        ``ready_since``: None if the node is not ready yet.
        """
        csi_node = self.nodes.get(node_name)
        present = csi_node.value if csi_node is not None else {}
        limits = {driver: count for driver, count in present.items() if count is not None}
        if self.required and is_settled(ready_since, now):
            limits |= {driver: 0 for driver in self.required if driver not in present}
        return limits

    def _driver_changed(self) -> None:
        self.required = tuple(sorted(driver.key for driver in self.drivers if driver.value))


def is_settled(ready_since: float | None, now: float) -> bool:
    """Whether the drivers of a node that became ready at this time have had time to register."""
    return ready_since is not None and now - ready_since >= REGISTERS_WITHIN
