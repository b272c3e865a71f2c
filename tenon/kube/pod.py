"""A pod as scheduling, disruption and the cache see it: its effective request and its constraints on the node.

The cluster cache and ``tenon simulate`` both build it with `tenon.kube.decode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenon.kube.host_ports import HostPort
from tenon.kube.pod_rules import NO_RULES, PodRules
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Toleration
from tenon.resources import Resources


@dataclass(frozen=True, slots=True)
class LocalDisk:
    """A volume on a disk of one machine: the names of the volume and its claim, and the machine's host names."""

    volume: str
    claim: str
    """``namespace/name``."""
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as scheduling sees it.

    ``requests`` is the effective request. It includes init containers, sidecars and overhead, and counts the pod itself
    as one unit of the resource ``pods``. ``required_terms`` are the OR-ed node affinity terms, each already combined
    with the nodeSelector. A pod without any constraint has no terms.
    """

    namespace: str
    name: str
    uid: str
    requests: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    required_terms: tuple[Requirements, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    created: float = 0.0
    priority: int = 0
    node_name: str = ""
    unsupported: str = ""
    """Why this pod must not be placed: it has a constraint that the engine does not support. One sentence."""
    rules: PodRules = NO_RULES
    """Its constraints relative to other pods, and its preferences."""
    volume_terms: tuple[Requirements, ...] = ()
    """Where its volumes are accessible: OR-ed alternatives that its node must meet as well as ``required_terms``."""
    attachments: tuple[tuple[str, str], ...] = ()
    """The (CSI driver, claim) of each volume that must be attached to its node."""
    exclusive: tuple[str, ...] = ()
    """Its claims (``namespace/name``) that only one pod at a time may use: those with ReadWriteOncePod."""
    local_disks: tuple[LocalDisk, ...] = ()
    """Its volumes that are on a disk of one machine."""
    workload: str = ""
    """Its controller as ``Kind/name``; for a ReplicaSet of a Deployment, the Deployment. Empty without a controller."""
    buys_in_shortage: bool = False
    """It takes a node at any price, although its NodePool may have its pods wait while EC2 refuses cheaper ones."""
    buffer: str = ""
    """The CapacityBuffer (``namespace/name``) whose capacity this placeholder reserves. Empty for real pods."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def workload_or_name(self) -> str:
        """What its namespace knows it by: the workload, which has its like and its successors, or else its own name."""
        return self.workload or self.name
