"""What a NodeClaim leaves behind if it disappears unexpectedly: a workflow, a Node, launch templates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tenon.garbage_collection.facts import GONE_STATES, Graces, Observations, ObservedNode
from tenon.garbage_collection.findings import Finding, FindingKind
from tenon.kube.claim_record import instance_id_of


def workflows(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield open workflows, not leaving yet, whose claim does not exist or was replaced by one of the same name."""
    if observations.claims is None or observations.workflows is None:
        return
    uids = {claim.name: claim.uid for claim in observations.claims}
    for workflow in observations.workflows:
        uid = uids.get(workflow.claim)
        if uid is not None and workflow.uid in ("", uid):
            continue
        if not workflow.leaving and observations.now - workflow.started_at >= graces.workflow:
            yield Finding(
                FindingKind.WORKFLOW_WITHOUT_CLAIM,
                workflow.claim,
                workflow.started_at,
                claim=workflow.claim,
                uid=workflow.uid,
                confirmed=uid is not None,
            )


def nodes(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield Nodes with Tenon's finalizer whose claim and instance are gone. Nothing else removes the finalizer."""
    if (
        observations.claims is None
        or observations.instances is None
        or observations.states is None
        or observations.nodes is None
    ):
        return
    names = {claim.name for claim in observations.claims}
    claimed_names = {claim.provider_id for claim in observations.claims} | {
        claim.node_name for claim in observations.claims
    }
    states = observations.known_states
    for node in own_nodes(observations):
        instance_id = instance_id_of(node.provider_id)
        if node.ready or not instance_id or observations.now - node.created_at < graces.node:
            continue
        if node.claim in names or node.provider_id in claimed_names or node.name in claimed_names:
            continue
        if states.get(instance_id) not in GONE_STATES:
            continue
        if node.claim and observations.may_be_open(node.claim):
            continue
        yield Finding(
            FindingKind.NODE_WITHOUT_CLAIM,
            node.name,
            node.created_at,
            claim=node.claim,
            uid=node.uid,
            instance_id=instance_id,
            node_name=node.name,
            confirmed=instance_id in states,
        )


def own_nodes(observations: Observations) -> Iterator[ObservedNode]:
    """Yield the Nodes that Tenon must release."""
    return (node for node in observations.nodes or () if node.ours)


def templates(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield launch templates whose class is gone, or whose class has had no launch lately and has none pending."""
    if observations.claims is None or observations.classes is None or observations.templates is None:
        return
    needed: dict[str, datetime] = {}
    waiting: set[str] = set()
    for claim in observations.managed_claims:
        needed[claim.node_class] = max(claim.created_at, needed.get(claim.node_class, claim.created_at))
        if not claim.provider_id and claim.deleted_at is None:
            waiting.add(claim.node_class)
    for template in observations.templates:
        last = max(template.created_at, needed.get(template.node_class, template.created_at))
        if observations.now - template.created_at < graces.template:
            continue
        in_use = template.node_class in waiting or observations.now - last < graces.template
        if template.node_class in observations.classes and in_use:
            continue
        yield Finding(
            FindingKind.UNUSED_TEMPLATE,
            template.id,
            template.created_at,
            node_class=template.node_class,
            template=template.name,
        )
