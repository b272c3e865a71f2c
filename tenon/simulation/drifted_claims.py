"""Sets the condition Drifted of NodeClaims that their NodePool or EC2NodeClass describes differently.

A user who changes a manifest in a file wants to see which nodes that replaces. The comparison with a NodePool needs
only the objects. The hash of an EC2NodeClass covers the cluster's CA bundle, so it is compared if the bundle is known,
or if the class of a live cluster shows what changed. What a class selects is known to EC2, so that part of the
condition stays as the worker wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import EC2NODECLASS_VERSION, changed_class_fields, ec2nodeclass_hash
from tenon.apis.json_object import JsonObject
from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.nodepool import NodePool
from tenon.disruption.rules.drifted import DesiredNode, DriftReason, may_still_hold
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import format_instant
from tenon.simulation.objects import Objects, SourcedObject


@dataclass(frozen=True, slots=True)
class _Class:
    """An EC2NodeClass of the input, with what is known of the nodes that it describes."""

    model: EC2NodeClass
    hash: str
    """That of new nodes."""
    changes: str = ""
    """The fields that a file changes, in a sentence; empty if that is not known."""


def compare_with_pools(objects: Objects, now: datetime, ca_bundle: str = "") -> None:
    """Write or remove the condition of each launched NodeClaim whose NodePool is in the input.

    ``ca_bundle``: the certificate authority of the cluster; empty if it is not known.
    """
    classes = {item.name: _class_of(item, objects, ca_bundle) for item in objects.of("EC2NodeClass")}
    pools = {}
    for item in objects.of("NodePool"):
        pool = NodePool.model_validate(item.body)
        known_class = classes.get(pool.spec.template.spec.node_class_ref.name)
        compared = (
            DesiredNode(pool, known_class.model, class_hash=known_class.hash)
            if known_class
            else DesiredNode(pool, None)
        )
        pools[pool.metadata.name] = (compared, known_class.changes if known_class else "")
    claims = objects.by_kind.get("NodeClaim", {})
    for key, item in claims.items():
        claim = ClaimRecord.of(item.body)
        if claim.pool not in pools or claim.deleting or not claim.launched:
            continue
        desired, changes = pools[claim.pool]
        verdict, present = desired.check(claim, now), claim.condition(DRIFTED)
        drift = verdict.drift
        if drift is not None:
            if drift.reason is DriftReason.NODECLASS and changes:
                drift = replace(drift, message=changes)
            if present.get("status") != "True" or present.get("reason") != drift.reason:
                condition = {
                    "type": DRIFTED,
                    "status": "True",
                    "reason": drift.reason.value,
                    "message": drift.message,
                    "lastTransitionTime": format_instant(now),
                }
                claims[key] = _with_condition(item, condition)
        elif present and not may_still_hold(present.get("reason"), verdict.unknown):
            claims[key] = _with_condition(item, None)


def _class_of(item: SourcedObject, objects: Objects, ca_bundle: str) -> _Class | None:
    """The class and the hash of its new nodes; None if that hash cannot be known."""
    after = EC2NodeClass.model_validate(item.body)
    live = objects.replaced.get((item.kind, item.key))
    before = _parsed(live) if live is not None else None
    hashed, selected = changed_class_fields(before, after) if before is not None else ([], [])
    if selected:
        fields = " and ".join(f"spec.{name}" for name in selected)
        objects.note(
            f"EC2NodeClass {item.name}: only EC2 knows what the changed {fields} selects, so it shows no drift"
        )
    changes = (
        f"{', '.join(f'spec.{name}' for name in hashed)} of EC2NodeClass {item.name} would change" if hashed else ""
    )
    if ca_bundle:
        return _Class(after, ec2nodeclass_hash(after, ca_bundle), changes)
    if before is None:
        return None
    annotations = before.metadata.annotations
    if annotations.get(labels.EC2NODECLASS_HASH_VERSION) != EC2NODECLASS_VERSION:
        return None
    unchanged = ec2nodeclass_hash(before) == ec2nodeclass_hash(after)
    return _Class(
        after, annotations.get(labels.EC2NODECLASS_HASH, "") if unchanged else ec2nodeclass_hash(after), changes
    )


def _parsed(live: SourcedObject) -> EC2NodeClass | None:
    """The class as the cluster has it; None if the API server stores what the worker cannot read."""
    try:
        return EC2NodeClass.model_validate(live.body)
    except ValueError:
        return None


def _with_condition(item: SourcedObject, condition: JsonObject | None) -> SourcedObject:
    """Return the NodeClaim with this condition Drifted, or without any."""
    status = item.body["status"]
    kept_conditions = [
        other_condition for other_condition in status.get("conditions") or () if other_condition.get("type") != DRIFTED
    ]
    conditions = [*kept_conditions, condition] if condition is not None else kept_conditions
    return SourcedObject(item.kind, {**item.body, "status": {**status, "conditions": conditions}}, item.source)
