"""Finds the Node of a NodeClaim and computes the one patch that registers it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.structs import Object
from tenon.kube.taints import merged, taints_of, without_taint
from tenon.kube.timestamps import time_text
from tenon.node import startup_cordon
from tenon.node.release import with_finalizer

OWN_ANNOTATIONS = frozenset(
    {
        labels.PLANNED_PODS,
        labels.PLANNED_POD_GROUPS,
        labels.PLANNED_REQUESTS,
        labels.LARGEST_CAPACITY,
        labels.EXPLANATION,
        labels.TERMINATION_TIMESTAMP,
        labels.KEEP_UNTIL,
        labels.REBOOTS,
        labels.REBOOT_GRACE_PERIOD,
        labels.REBOOT_PRE_BOOT_ID,
        labels.KEPT_OF_V1BETA1,
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)
"""Annotations that describe the NodeClaim itself and would be misleading on a Node."""


NODE_NOT_FOUND = "NodeNotFound"
"""The reason while no Node has the claim's provider ID."""
NOT_JOINED = "NodeNotJoined"
"""The reason if its Node should have joined by now."""
JOINS_WITHIN = timedelta(minutes=3)
"""How long after its launch a Node usually takes to join at most. After that, an event says it."""
LATE_AFTER = (JOINS_WITHIN, 2 * JOINS_WITHIN, 4 * JOINS_WITHIN)
"""When a claim without a Node is checked, after its launch. Its console may say more each time. The registration
timeout is the last time."""


@dataclass(frozen=True, slots=True)
class Match:
    """The claim's Node, or the reason why there is none."""

    node: Object | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """The merge patch that registers a Node; empty if nothing is missing."""

    patch: dict[str, Any] = field(default_factory=dict)
    unregistered_taint_missing: bool = False
    """The Node joined without the taint that keeps pods away until registration: its user data does not set it."""


def match(nodes: Iterable[Object], provider_id: str) -> Match:
    """Return the Node with this provider ID. Several such Nodes are an error that only a person can resolve."""
    matches = [node for node in nodes if (node.get("spec") or {}).get("providerID") == provider_id]
    if not provider_id or not matches:
        return Match(reason=NODE_NOT_FOUND, message=f"no Node with provider ID {provider_id or '(none)'} has joined")
    if len(matches) > 1:
        names = ", ".join(sorted(node["metadata"]["name"] for node in matches))
        return Match(
            reason="MultipleNodesFound",
            message=f"provider ID {provider_id} is on several Nodes ({names}): delete the wrong ones",
        )
    return Match(node=matches[0])


def minutes_late(claim: ClaimRecord, now: datetime) -> int:
    """Return for how many minutes a claim has no Node, as one of `LATE_AFTER`; 0 if its Node may still be in time."""
    if claim.launched_at is None or claim.registered or claim.deleting:
        return 0
    passed = [after for after in LATE_AFTER if now - claim.launched_at >= after]
    return int(passed[-1].total_seconds() // 60) if passed else 0


def next_late(claim: ClaimRecord, now: datetime) -> datetime | None:
    """Return when `minutes_late` grows next if no Node joins; None if it does not."""
    launched_at = claim.launched_at
    if launched_at is None or claim.registered or claim.deleting:
        return None
    return next((launched_at + after for after in LATE_AFTER if launched_at + after > now), None)


def not_joined(claim: ClaimRecord, console: str) -> Match:
    """Return what to say of a claim whose Node should have joined by now.

    The text is the same for each check with the same ``console``, so that repetitions write nothing.
    """
    minutes = int(JOINS_WITHIN.total_seconds() // 60)
    launch = f"its launch at {time_text(claim.launched_at)}" if claim.launched_at is not None else "its launch"
    message = f"no Node has joined for {claim.instance_id} within {minutes} minutes of {launch}: {console}"
    return Match(reason=NOT_JOINED, message=message)


def registration(claim: Object, node: Object) -> Registration:
    """Compute what the Node lacks of its claim.

    The claim's taints are copied once, in the same patch as the registered label. A startup taint that its agent
    removes later therefore never comes back.
    """
    have, want = node["metadata"], claim["metadata"]
    present = have.get("labels") or {}
    registered = present.get(labels.REGISTERED) == "true"
    taints = taints_of(node)
    metadata: dict[str, Any] = {}
    _add(metadata, "labels", _missing(present, (want.get("labels") or {}) | {labels.REGISTERED: "true"}))
    annotations_ = {name: text for name, text in (want.get("annotations") or {}).items() if name not in OWN_ANNOTATIONS}
    adds_cordon = not registered and startup_cordon.needs_startup_cordon(claim) and not startup_cordon.is_cordoned(node)
    if adds_cordon:
        annotations_[labels.STARTUP_CORDON] = "true"
    _add(metadata, "annotations", _missing(have.get("annotations") or {}, annotations_))
    _add(metadata, "ownerReferences", _owners(have.get("ownerReferences") or (), want))
    metadata |= with_finalizer(node).get("metadata", {})
    patch: dict[str, Any] = {"metadata": metadata} if metadata else {}
    after = taints
    if not registered and present.get(labels.DO_NOT_SYNC_TAINTS) != "true":
        claim_spec = claim.get("spec") or {}
        after = merged(after, [*(claim_spec.get("taints") or ()), *(claim_spec.get("startupTaints") or ())])
    after = without_taint(after, labels.UNREGISTERED_TAINT)
    spec: dict[str, Any] = {"taints": after} if after != taints else {}
    if adds_cordon:
        spec["unschedulable"] = True
    if spec:
        patch["spec"] = spec
    missing = not registered and without_taint(taints, labels.UNREGISTERED_TAINT) == taints
    return Registration(patch=patch, unregistered_taint_missing=missing)


def _missing(present: Object, desired: Object) -> dict[str, str]:
    return {name: text for name, text in desired.items() if present.get(name) != text}


def _add(metadata: dict[str, Any], name: str, value: object) -> None:
    if value:
        metadata[name] = value


def _owners(present: Sequence[Object], claim: Object) -> list[Object]:
    """Add the claim to the owners.

    Return an empty list if the claim is already an owner, so that nothing is patched.
    """
    if any(owner.get("uid") == claim["uid"] for owner in present):
        return []
    owner = {
        "apiVersion": f"{labels.GROUP}/v1",
        "kind": "NodeClaim",
        "name": claim["name"],
        "uid": claim["uid"],
        "blockOwnerDeletion": True,
    }
    return [*present, owner]
