"""Instances that no NodeClaim accounts for, and instances whose tags do not lead to their node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from tenon.apis import labels
from tenon.garbage_collection.facts import Graces, Observations, ObservedInstance
from tenon.garbage_collection.findings import Finding, FindingKind

NAME = "Name"
MAX_LEFT = 100
"""How many instances that are left to workflows a sweep remembers for the next one."""


def without_claim(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield instances whose NodeClaim does not exist, or has another instance."""
    claims = {claim.name for claim in observations.claims or ()}
    for instance in _unclaimed(observations, graces):
        since = observations.left_since.get(instance.id)
        waited = since is not None and observations.now - since >= graces.left_to_workflow
        if _left_to_workflow(observations, instance) and not waited:
            continue
        yield Finding(
            FindingKind.INSTANCE_WITHOUT_CLAIM,
            instance.id,
            instance.launched_at,
            claim=instance.claim,
            pool=instance.pool,
            instance_id=instance.id,
            group=instance.group,
            confirmed=instance.claim in claims,
        )


def left_to_workflows(observations: Observations, graces: Graces) -> dict[str, datetime]:
    """Return instances without a NodeClaim that an open workflow must terminate, and since when it is left to that."""
    since_by_instance = {
        instance.id: observations.left_since.get(instance.id, observations.now)
        for instance in _unclaimed(observations, graces)
        if _left_to_workflow(observations, instance)
    }
    return dict(sorted(since_by_instance.items(), key=lambda item: (item[1], item[0]))[:MAX_LEFT])


def count_without_claim(observations: Observations, graces: Graces) -> int:
    """Count the instances whose NodeClaim does not exist. Those that are left to an open workflow count too."""
    claims = {claim.name for claim in observations.claims or ()}
    return sum(instance.claim not in claims for instance in _unclaimed(observations, graces))


def untagged(observations: Observations) -> Iterator[Finding]:
    """Yield instances of existing NodeClaims that lack the claim's tag or the Node's name."""
    by_id = {instance.id: instance for instance in observations.instances or ()}
    for claim in observations.managed_claims:
        instance = by_id.get(claim.instance_id)
        if instance is None or instance.state == "shutting-down" or claim.deleted_at is not None:
            continue
        present = {NAME: instance.name, labels.TAG_NODECLAIM: instance.claim}
        if tags_to_write(claim.name, claim.node_name if claim.registered else "", present):
            yield Finding(
                FindingKind.UNTAGGED_INSTANCE,
                instance.id,
                instance.launched_at,
                claim=claim.name,
                uid=claim.uid,
                instance_id=instance.id,
                node_name=claim.node_name if claim.registered else "",
            )


def tags_to_write(claim: str, node_name: str, present: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that an instance of a claim lacks. A Name from an EC2NodeClass is kept."""
    tags: dict[str, str] = {}
    if not present.get(labels.TAG_NODECLAIM):
        tags[labels.TAG_NODECLAIM] = claim
    if node_name and present.get(NAME, "") in ("", claim) and present.get(NAME) != node_name:
        tags[NAME] = node_name
    return tags


def _unclaimed(observations: Observations, graces: Graces) -> Iterator[ObservedInstance]:
    if observations.instances is None or observations.claims is None:
        return
    by_name = {claim.name: claim for claim in observations.claims}
    claimed_ids = {claim.instance_id for claim in observations.claims}
    launching = {claim.pool for claim in observations.claims if not claim.provider_id}
    groups = {claim.group for claim in observations.claims if claim.group and not claim.provider_id}
    for instance in observations.instances:
        age = observations.now - instance.launched_at
        if instance.state == "shutting-down" or instance.id in claimed_ids or age < graces.instance:
            continue
        claim = by_name.get(instance.claim)
        if claim is not None:
            lost = claim.managed and bool(claim.provider_id) and age >= graces.second_instance
        elif instance.group and not instance.claim:
            lost = instance.group not in groups  # otherwise it may belong to a member that is just launching
        else:
            # Without a claim's tag, it may belong to any claim of its pool that is just launching.
            lost = bool(instance.claim) or instance.pool not in launching
        if lost:
            yield instance


def _left_to_workflow(observations: Observations, instance: ObservedInstance) -> bool:
    """True if an open workflow may account for the instance. A claim with another instance does not count."""
    claimed = any(claim.name == instance.claim for claim in observations.claims or ())
    return bool(instance.claim) and not claimed and observations.may_be_open(instance.claim)
