"""A pod as scheduling, disruption and the cache see it: its effective request, and what else it asks of a node.

The cluster cache and ``tenon simulate`` both get it from `tenon.kube.decode`.
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
class Pod:
    """A pod as scheduling sees it.

    ``requests`` is the effective request (init containers, sidecars, overhead folded in) and counts the pod itself
    as one of the resource ``pods``. ``required_terms`` are the OR-ed node-affinity terms, each already combined with
    the nodeSelector; a pod without any constraint has no term.
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
    """Why this pod must not be placed: it states a rule that the engine does not know. One sentence."""
    rules: PodRules = NO_RULES
    """What it says about other pods, and its preferences."""
    volume_terms: tuple[Requirements, ...] = ()
    """Where its volumes can be reached: OR-ed alternatives that its node must meet as well as ``required_terms``."""
    attachments: tuple[tuple[str, str], ...] = ()
    """(CSI driver, claim) of each volume that must be attached to its node."""
    workload: str = ""
    """What controls it, as ``Kind/name``: for pods of a Deployment's ReplicaSets the Deployment. Empty for none."""
    buffer: str = ""
    """The CapacityBuffer (``namespace/name``) whose room it stands for; no cluster has such a pod."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"
