"""NodeClaims from a plan: the same plan of the same batch gives the same objects, so writing them twice is safe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.hashing import nodepool_hashes
from tenon.apis.nodepool import NodePool
from tenon.ec2.own_kubelet import own_kubelet
from tenon.kube.planned_pods import format_planned_pods
from tenon.kube.pod import Pod
from tenon.provisioning.pools import instance_type_requirement, template_labels
from tenon.resources import Resources, format_resources, parse_resources, total
from tenon.scheduling.model import PlannedClaim

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, as Kubernetes' own generated names."""


def claim_name(pool: str, batch: int, ordinal: int, salt: int = 0) -> str:
    """``<pool>-<six characters>``, derived from the batch and the claim's place in it; at most 63 characters.

    ``salt`` counts the names that are to be passed over, for another object has them.
    """
    return name_after(pool, f"{pool}/{batch}/{ordinal}/{salt}" if salt else f"{pool}/{batch}/{ordinal}")


def name_after(pool: str, origin: str) -> str:
    """``<pool>-<six characters>``: the name of what came about by ``origin``; at most 63 characters."""
    number = int.from_bytes(hashlib.sha256(origin.encode()).digest()[:8])
    suffix = ""
    for _ in range(6):
        number, index = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[index]
    # A long pool name is cut, but not right after a dot: no part of a DNS name begins with a dash.
    return f"{pool[:56].rstrip('-.')}-{suffix}"


def claim_body(planned: PlannedClaim, pool: NodePool, *, batch: int, ordinal: int) -> dict[str, Any]:
    """The NodeClaim of a node that is planned for pods, as it is written to the API server."""
    body = standing_claim(planned, pool, claim_name(pool.metadata.name, batch, ordinal))
    body["metadata"]["labels"][labels.BATCH] = str(batch)
    body["metadata"]["annotations"] |= {
        labels.PLANNED_PODS: format_planned_pods(planned.pods),
        labels.PLANNED_REQUESTS: format_planned_requests(planned.pods),
        labels.LARGEST_CAPACITY: _as_json(planned.largest),
    }
    return body


def standing_claim(planned: PlannedClaim, pool: NodePool, name: str) -> dict[str, Any]:
    """A NodeClaim with all that its pool says, whichever pods it may be for."""
    spec = pool.spec.template.spec
    known = planned.requirements.with_(instance_type_requirement(planned.instance_types))
    return {
        "metadata": {
            "name": name,
            "labels": {**known.labels(), **template_labels(pool)},
            "annotations": {
                **pool.spec.template.metadata.annotations,
                **nodepool_hashes(pool),
                **own_kubelet(pool.metadata.annotations),
                labels.MIN_VALUES_RELAXED: "true" if planned.min_values_relaxed else "false",
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
            # the old name of the pool's label is no key of v1, and the labels above say it
            "requirements": [term for term in known.to_selectors() if term["key"] != labels.PROVISIONER],
            "resources": {"requests": format_resources(planned.requests)},
            "nodeClassRef": spec.node_class_ref.model_dump(by_alias=True),
            "expireAfter": str(spec.expire_after),
            **({"terminationGracePeriod": str(spec.termination_grace_period)} if spec.termination_grace_period else {}),
        },
    }


def format_planned_requests(pods: tuple[Pod, ...]) -> str:
    """The annotation that says what the pods that a claim is bought for request, DaemonSets left out."""
    return _as_json(total(pod.requests for pod in pods))


def planned_requests(annotations: Mapping[str, str]) -> Resources:
    """What the pods that a claim was bought for request together; empty when it does not say, or not readably."""
    return _read(annotations, labels.PLANNED_REQUESTS)


def largest_capacity(annotations: Mapping[str, str]) -> Resources:
    """The most that a claim may take of its pool's limits; empty when it does not say, or not readably."""
    return _read(annotations, labels.LARGEST_CAPACITY)


def _as_json(resources: Resources) -> str:
    return json.dumps(format_resources(resources), separators=(",", ":"))


def _read(annotations: Mapping[str, str], key: str) -> Resources:
    try:
        return parse_resources(json.loads(annotations.get(key) or "{}"))
    except (ValueError, AttributeError):
        return {}
