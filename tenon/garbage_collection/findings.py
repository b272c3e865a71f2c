"""What a sweep can find."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class FindingKind(StrEnum):
    """Kinds of findings, as metrics name them."""

    INSTANCE_WITHOUT_CLAIM = "instance_without_claim"
    CLAIM_WITHOUT_INSTANCE = "claim_without_instance"
    CLAIM_WITHOUT_NODE = "claim_without_node"
    CLAIM_WITHOUT_WORKFLOW = "claim_without_workflow"
    WORKFLOW_WITHOUT_CLAIM = "workflow_without_claim"
    NODE_WITHOUT_CLAIM = "node_without_claim"
    UNUSED_TEMPLATE = "unused_launch_template"
    FOREIGN_FINALIZER = "foreign_finalizer"
    UNTAGGED_INSTANCE = "untagged_instance"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to remove or repair. ``name`` is the instance, claim, Node or template ID that it is about.

    Only the other fields that the kind needs are set. ``uid`` is that of the claim or the Node.
    """

    kind: FindingKind
    name: str
    since: datetime
    claim: str = ""
    uid: str = ""
    pool: str = ""
    instance_id: str = ""
    node_name: str = ""
    node_class: str = ""
    template: str = ""
    finalizers: tuple[str, ...] = ()
    registered: bool = False
    group: str = ""
    confirmed: bool = False
    """A record itself says so, for example EC2 that the instance is terminated. Otherwise something is only missing."""

    @property
    def key(self) -> str:
        """Identify the same thing across sweeps."""
        return f"{self.kind.value}/{self.name}"
