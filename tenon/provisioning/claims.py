"""Builds NodeClaims from a plan.

The same plan of the same batch gives the same objects, so writing them twice is safe.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.hashing import nodepool_hashes
from tenon.apis.json_object import parse_json_object
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.apis.shortage_price import copied_factor
from tenon.apis.warm import FILLING
from tenon.ec2.families.own_kubelet import own_kubelet
from tenon.kube.planned_pods import format_planned_pods, format_pod_groups
from tenon.kube.pod import Pod
from tenon.messages.explanation import Explanation
from tenon.provisioning.pools import instance_type_requirement, template_labels
from tenon.resources import Resources, format_resources, parse_resources, total
from tenon.scheduling.model import PlannedClaim
from tenon.scheduling.offerings.hourly_cost import COSTS

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, as in names that Kubernetes generates."""


def claim_name(pool: str, batch: int, ordinal: int, salt: int = 0) -> str:
    """``<pool>-<six characters>``, derived from the batch and the claim's place in it; at most 63 characters.

    ``salt`` counts the names to skip because another object has them.
    """
    return name_after(pool, f"{pool}/{batch}/{ordinal}/{salt}" if salt else f"{pool}/{batch}/{ordinal}")


def name_after(pool: str, origin: str) -> str:
    """``<pool>-<six characters>``, derived from ``origin``; at most 63 characters."""
    number = int.from_bytes(hashlib.sha256(origin.encode()).digest()[:8])
    suffix = ""
    for _ in range(6):
        number, index = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[index]
    # Cut a long pool name, but not right after a dot: no part of a DNS name may start with a dash.
    return f"{pool[:56].rstrip('-.')}-{suffix}"


def claim_body(planned: PlannedClaim, pool: NodePool, *, batch: int, ordinal: int) -> dict[str, Any]:
    """Build the NodeClaim of a node that is planned for pods, as it is written to the API server."""
    body = _body_for_pods(planned, pool, claim_name(pool.metadata.name, batch, ordinal))
    body["metadata"]["labels"][labels.BATCH] = str(batch)
    return body


def replacement_claim_body(
    planned: PlannedClaim, pool: NodePool, name: str, command: str, reason: Reason, explanation: Explanation
) -> dict[str, Any]:
    """Build the NodeClaim of a node that comes in place of others.

    Args:
        planned: the claim with the pods that move to it; it has none in a static NodePool.
        pool: its NodePool.
        name: its name.
        command: the ID of the disruption command.
        reason: the reason of that command.
        explanation: why the command is carried out.
    """
    body = _body_for_pods(planned, pool, name) if planned.pods else static_claim_body(planned, pool, name)
    body["metadata"]["annotations"] |= {
        labels.REPLACEMENT_FOR: command,
        labels.CREATED_FOR: reason,
        labels.EXPLANATION: explanation.annotation(),
    }
    return body


def warm_claim_body(planned: PlannedClaim, pool: NodePool, name: str, explanation: Explanation) -> dict[str, Any]:
    """Build the NodeClaim of a node that is stopped once it is initialized. Its taint keeps pods away until then."""
    body = static_claim_body(planned, pool, name)
    key, effect = labels.WARM_TAINT
    body["spec"]["taints"].append({"key": key, "effect": effect})
    body["metadata"]["annotations"] |= {
        labels.WARM: FILLING,
        labels.LARGEST_CAPACITY: _as_json(planned.largest),
        labels.EXPLANATION: explanation.annotation(),
    }
    return body


def _body_for_pods(planned: PlannedClaim, pool: NodePool, name: str) -> dict[str, Any]:
    body = static_claim_body(planned, pool, name)
    groups = format_pod_groups(planned.pods)
    body["metadata"]["annotations"] |= {
        labels.PLANNED_PODS: format_planned_pods(planned.pods),
        **({labels.PLANNED_POD_GROUPS: groups} if groups else {}),
        labels.PLANNED_REQUESTS: format_planned_requests(planned.pods),
        labels.LARGEST_CAPACITY: _as_json(planned.largest),
    }
    return body


def static_claim_body(planned: PlannedClaim, pool: NodePool, name: str) -> dict[str, Any]:
    """Build a NodeClaim with everything that its pool sets, without the pods that it is for."""
    spec = pool.spec.template.spec
    requirements = planned.requirements.with_(instance_type_requirement(planned.instance_types))
    return {
        "metadata": {
            "name": name,
            "labels": {**requirements.labels(), **template_labels(pool)},
            "annotations": {
                **pool.spec.template.metadata.annotations,
                **nodepool_hashes(pool),
                **own_kubelet(pool.metadata.annotations),
                **copied_factor(pool.metadata.annotations),
                **_revision(pool),
                labels.MIN_VALUES_RELAXED: "true" if planned.min_values_relaxed else "false",
                **_costing(planned),
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
            "taints": [taint.to_dict() for taint in spec.taints],
            "startupTaints": [taint.to_dict() for taint in spec.startup_taints],
            # the old key of the pool's label does not exist in v1, and the labels above already have it
            "requirements": [term for term in requirements.to_selectors() if term["key"] != labels.PROVISIONER],
            "resources": {"requests": format_resources(planned.requests)},
            "nodeClassRef": spec.node_class_ref.model_dump(by_alias=True),
            "expireAfter": str(spec.expire_after),
            **({"terminationGracePeriod": str(spec.termination_grace_period)} if spec.termination_grace_period else {}),
        },
    }


def _costing(planned: PlannedClaim) -> dict[str, str]:
    """Return what the claim may use of its pool's limits, if one of them is on costs, which its node does not state."""
    counts_cost = any(name in COSTS for name in planned.largest)
    return {labels.LARGEST_CAPACITY: _as_json(planned.largest)} if counts_cost else {}


def _revision(pool: NodePool) -> dict[str, str]:
    """Return the version that the claim launches, if its pool is under a rollout."""
    digest = pool.metadata.annotations.get(labels.REVISION)
    return {labels.REVISION: digest} if digest else {}


def format_planned_requests(pods: tuple[Pod, ...]) -> str:
    """Format the annotation with the total requests of the claim's planned pods, without DaemonSets."""
    return _as_json(total(pod.requests for pod in pods))


def planned_requests(annotations: Mapping[str, str]) -> Resources:
    """Return the total requests of the claim's planned pods; empty if the annotation is missing or unreadable."""
    return _read(annotations, labels.PLANNED_REQUESTS)


def largest_capacity(annotations: Mapping[str, str]) -> Resources:
    """Return the most that a claim may use of its pool's limits; empty if the annotation is missing or unreadable."""
    return _read(annotations, labels.LARGEST_CAPACITY)


def _as_json(resources: Resources) -> str:
    return json.dumps(format_resources(resources), separators=(",", ":"))


def _read(annotations: Mapping[str, str], key: str) -> Resources:
    try:
        return parse_resources(parse_json_object(annotations.get(key)))
    except ValueError:
        return {}
