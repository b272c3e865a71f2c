"""A NodePool, an EC2NodeClass and a NodeClaim launched from them, for the tests of drift. Each test changes a field."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hashes
from tenon.apis.nodepool import NodePool
from tenon.disruption.rules.drifted import DesiredNode, DriftCheck
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.provisioning.claims import static_claim_body
from tenon.scheduling.model import InstanceType, PlannedClaim
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, REMOVED, edited, taint, term
from tests.tenon.scheduling.builders import CATALOG

CREATED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW = CREATED + timedelta(days=1)
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "lastTransitionTime": "2026-03-01T00:00:00Z",
    "observedGeneration": 1,
}
FOUND: dict[str, Any] = {
    "subnets": [{"id": "subnet-a", "zone": "us-west-2a"}, {"id": "subnet-b", "zone": "us-west-2b"}],
    "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
    "amis": [
        {"id": "ami-amd64", "requirements": [term(labels.ARCH, "In", "amd64")]},
        {"id": "ami-arm64", "requirements": [term(labels.ARCH, "In", "arm64")]},
    ],
    "conditions": [READY],
}
RICH: dict[str, Any] = {
    "template/metadata/labels": {"team": "a"},
    "template/metadata/annotations": {"note": "x"},
    "template/spec/taints": [taint("dedicated")],
    "template/spec/startupTaints": [taint("starting")],
    "template/spec/expireAfter": "720h",
    "template/spec/terminationGracePeriod": "1h",
}
"""A NodePool whose template sets every field."""


def pool(edits: Mapping[str, Any] | None = None, **metadata: Any) -> NodePool:
    values = {path: value for path, value in {**RICH, **(edits or {})}.items() if value is not REMOVED}
    body = edited(NODEPOOL, values)
    body["metadata"] = {"name": "default", "uid": "u", "generation": 1, **metadata}
    return NodePool.model_validate(body)


def node_class(edits: Mapping[str, Any] | None = None, **status: Any) -> EC2NodeClass:
    body = edited(EC2NODECLASS, dict(edits or {}))
    body["metadata"] = {"name": "default", "generation": 1}
    body["status"] = {**copy.deepcopy(FOUND), **status}
    return EC2NodeClass.model_validate(body)


def launched(of: NodePool | None = None, made_from: EC2NodeClass | None = None, /, **changed: Any) -> ClaimRecord:
    """A NodeClaim of the pool on an m5.large in zone a, as the launch leaves it."""
    of, made_from = of or pool(), made_from or node_class()
    planned = PlannedClaim(
        "default", (), ("m5.large",), Requirements(), {}, 0.1, OfferingKey("on-demand", "m5.large", "us-west-2a")
    )
    body = static_claim_body(planned, of, "claim-1")
    metadata = body["metadata"]
    metadata |= {"uid": "uid-1", "creationTimestamp": "2026-03-01T12:00:00Z"}
    metadata["labels"] |= {
        labels.INSTANCE_TYPE: "m5.large",
        labels.ZONE: "us-west-2a",
        labels.CAPACITY_TYPE: "on-demand",
        labels.ARCH: "amd64",
        **changed.pop("labels", {}),
    }
    metadata["annotations"] |= {
        **ec2nodeclass_hashes(made_from),
        labels.SUBNET_ID: "subnet-a",
        labels.SECURITY_GROUP_IDS: "sg-1,sg-2",
        **changed.pop("annotations", {}),
    }
    metadata["annotations"] = {key: value for key, value in metadata["annotations"].items() if value is not None}
    body["spec"]["requirements"] = changed.pop("requirements", [])
    body["status"] = {"imageID": "ami-amd64", **changed}
    return ClaimRecord.of(body)


def verdict(
    claim: ClaimRecord,
    of: NodePool | None = None,
    current: EC2NodeClass | None = None,
    types: Sequence[InstanceType] | None = CATALOG,
    now: datetime = NOW,
) -> DriftCheck:
    return DesiredNode(of or pool(), current or node_class(), types).check(claim, now)
