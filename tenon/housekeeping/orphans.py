"""What a NodeClaim leaves behind if it disappears unexpectedly: a workflow, a Node, launch templates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tenon.housekeeping.facts import GONE_STATES, Graces, Observations, ObservedNode
from tenon.housekeeping.findings import Finding, Kind
from tenon.kube.claim_record import instance_id_of


def workflows(seen: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield open workflows, not leaving yet, whose claim does not exist or was replaced by one of the same name."""
    if seen.claims is None or seen.workflows is None:
        return
    uids = {claim.name: claim.uid for claim in seen.claims}
    for each in seen.workflows:
        uid = uids.get(each.claim)
        if uid is not None and each.uid in ("", uid):
            continue
        if not each.leaving and seen.now - each.started_at >= graces.workflow:
            yield Finding(
                Kind.WORKFLOW_WITHOUT_CLAIM,
                each.claim,
                each.started_at,
                claim=each.claim,
                uid=each.uid,
                confirmed=uid is not None,
            )


def nodes(seen: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield Nodes with Tenon's finalizer whose claim and instance are gone. Nothing else removes the finalizer."""
    if seen.claims is None or seen.instances is None or seen.states is None or seen.nodes is None:
        return
    names = {claim.name for claim in seen.claims}
    known = {claim.provider_id for claim in seen.claims} | {claim.node_name for claim in seen.claims}
    states = seen.known_states
    for node in own_nodes(seen):
        instance_id = instance_id_of(node.provider_id)
        if node.ready or not instance_id or seen.now - node.created_at < graces.node:
            continue
        if node.claim in names or node.provider_id in known or node.name in known:
            continue
        if states.get(instance_id) not in GONE_STATES:
            continue
        if node.claim and seen.may_be_open(node.claim):
            continue
        yield Finding(
            Kind.NODE_WITHOUT_CLAIM,
            node.name,
            node.created_at,
            claim=node.claim,
            uid=node.uid,
            instance_id=instance_id,
            node_name=node.name,
            confirmed=instance_id in states,
        )


def own_nodes(seen: Observations) -> Iterator[ObservedNode]:
    """Yield the Nodes that Tenon must release."""
    return (node for node in seen.nodes or () if node.ours)


def templates(seen: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield launch templates whose class is gone, or whose class has had no launch lately and has none pending."""
    if seen.claims is None or seen.classes is None or seen.templates is None:
        return
    needed: dict[str, datetime] = {}
    waiting: set[str] = set()
    for claim in seen.managed_claims:
        needed[claim.node_class] = max(claim.created_at, needed.get(claim.node_class, claim.created_at))
        if not claim.provider_id and claim.deleted_at is None:
            waiting.add(claim.node_class)
    for template in seen.templates:
        last = max(template.created_at, needed.get(template.node_class, template.created_at))
        if seen.now - template.created_at < graces.template:
            continue
        in_use = template.node_class in waiting or seen.now - last < graces.template
        if template.node_class in seen.classes and in_use:
            continue
        yield Finding(
            Kind.UNUSED_TEMPLATE,
            template.id,
            template.created_at,
            node_class=template.node_class,
            template=template.name,
        )
