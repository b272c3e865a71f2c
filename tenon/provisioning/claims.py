"""NodeClaims from a plan: the same plan of the same batch gives the same objects, so writing them twice is safe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.hashing import NODEPOOL_VERSION, nodepool_hash
from tenon.apis.nodepool import NodePool
from tenon.provisioning.pools import instance_type_requirement, template_labels
from tenon.resources import Resources, format_resources, parse_resources, total
from tenon.scheduling.model import PlannedClaim, Pod

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, as Kubernetes' own generated names."""


def claim_name(pool: str, batch: int, ordinal: int) -> str:
    """``<pool>-<six characters>``, derived from the batch and the claim's place in it; at most 63 characters."""
    number = int.from_bytes(hashlib.sha256(f"{pool}/{batch}/{ordinal}".encode()).digest()[:8])
    suffix = ""
    for _ in range(6):
        number, index = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[index]
    # A long pool name is cut, but not right after a dot: no part of a DNS name begins with a dash.
    return f"{pool[:56].rstrip('-.')}-{suffix}"


def claim_body(planned: PlannedClaim, pool: NodePool, *, batch: int, ordinal: int) -> dict[str, Any]:
    """The NodeClaim of a planned node, as it is written to the API server."""
    spec = pool.spec.template.spec
    known = planned.requirements.with_(instance_type_requirement(planned.instance_types))
    return {
        "metadata": {
            "name": claim_name(pool.metadata.name, batch, ordinal),
            "labels": {**known.labels(), **template_labels(pool), labels.BATCH: str(batch)},
            "annotations": {
                **pool.spec.template.metadata.annotations,
                labels.NODEPOOL_HASH: nodepool_hash(pool),
                labels.NODEPOOL_HASH_VERSION: NODEPOOL_VERSION,
                labels.PLANNED_PODS: format_planned_pods(planned.pods),
                labels.PLANNED_REQUESTS: format_planned_requests(planned.pods),
                **({labels.MIN_VALUES_RELAXED: "true"} if planned.min_values_relaxed else {}),
            },
            "finalizers": [labels.TERMINATION_FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": pool.api_version,
                    "kind": pool.kind,
                    "name": pool.metadata.name,
                    "uid": pool.metadata.uid,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "taints": [taint.model_dump(by_alias=True, exclude_none=True) for taint in spec.taints],
            "startupTaints": [taint.model_dump(by_alias=True, exclude_none=True) for taint in spec.startup_taints],
            "requirements": known.to_selectors(),
            "resources": {"requests": format_resources(planned.requests)},
            "nodeClassRef": spec.node_class_ref.model_dump(by_alias=True),
            "expireAfter": str(spec.expire_after),
            **({"terminationGracePeriod": str(spec.termination_grace_period)} if spec.termination_grace_period else {}),
        },
    }


def format_planned_pods(pods: tuple[Pod, ...]) -> str:
    """The annotation that names the pods a claim is bought for."""
    return ",".join(f"{pod.key}={pod.uid}" for pod in sorted(pods, key=lambda pod: pod.key))


def planned_uids(annotations: Mapping[str, str]) -> frozenset[str]:
    """The UIDs of the pods that a claim was bought for."""
    text = annotations.get(labels.PLANNED_PODS, "")
    return frozenset(entry.rpartition("=")[2] for entry in text.split(",") if "=" in entry)


def format_planned_requests(pods: tuple[Pod, ...]) -> str:
    """The annotation that says what the pods that a claim is bought for request, DaemonSets left out."""
    return json.dumps(format_resources(total(pod.requests for pod in pods)), separators=(",", ":"))


def planned_requests(annotations: Mapping[str, str]) -> Resources:
    """What the pods that a claim was bought for request together; empty when it does not say, or not readably."""
    try:
        return parse_resources(json.loads(annotations.get(labels.PLANNED_REQUESTS) or "{}"))
    except (ValueError, AttributeError):
        return {}
