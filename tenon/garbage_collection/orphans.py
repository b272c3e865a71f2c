"""What NodeClaims leave behind: a workflow or a Node, if one disappears unexpectedly, and launch templates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tenon.garbage_collection.facts import GONE_STATES, Graces, Observations, ObservedNode
from tenon.garbage_collection.findings import Finding, FindingKind
from tenon.kube.claim_record import instance_id_of

MANY_TEMPLATES = 1000
"""If there are more launch templates, an hour without a launch is enough, also in a busy class.

AWS allows 5,000 in a region for all clusters of an account, and then refuses each launch that needs a new one.
"""


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
    """Yield launch templates that are unused: their class is gone or launches nothing, or they launched nothing lately.

    A launch whose template is deleted under it prepares itself again and makes the template again.
    """
    if observations.claims is None or observations.classes is None or observations.templates is None:
        return
    busy = {
        claim.node_class
        for claim in observations.managed_claims
        if observations.now - claim.created_at < graces.template or (not claim.provider_id and claim.deleted_at is None)
    } & observations.classes
    is_crowded = len(observations.templates) > MANY_TEMPLATES
    grace_of_busy = graces.template if is_crowded else graces.template_of_busy_class
    last_launches: dict[str, datetime] = {}
    for instance in observations.instances or ():
        last = last_launches.get(instance.template_id, instance.launched_at)
        last_launches[instance.template_id] = max(last, instance.launched_at)
    for template in observations.templates:
        last_use, grace = template.created_at, graces.template
        if template.node_class in busy:
            if observations.instances is None:
                continue
            last_use, grace = max(last_use, last_launches.get(template.id, last_use)), grace_of_busy
        if observations.now - last_use < grace:
            continue
        yield Finding(
            FindingKind.UNUSED_TEMPLATE,
            template.id,
            template.created_at,
            node_class=template.node_class,
            template=template.name,
        )
