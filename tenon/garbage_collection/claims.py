"""NodeClaims that lost their instance, Node or workflow, or that another controller's finalizer holds."""

from __future__ import annotations

from collections.abc import Iterator

from tenon.garbage_collection.facts import ENDED_STATES, GONE_STATES, Graces, Observations, ObservedClaim, ObservedNode
from tenon.garbage_collection.findings import Finding, FindingKind


def without_instance(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield launched claims whose instance is unknown to EC2 or terminated.

    A registered claim counts only if its Node is not Ready.
    """
    if (
        observations.claims is None
        or observations.instances is None
        or observations.states is None
        or observations.workflows is None
    ):
        return
    states = observations.known_states
    opened = observations.open_claims
    ready = {node.provider_id for node in observations.nodes or () if node.ready}
    for claim in with_due_instances(observations, graces):
        state = states.get(claim.instance_id)
        if state not in ENDED_STATES:
            continue
        if claim.registered and (observations.nodes is None or claim.provider_id in ready):
            continue
        if claim.name not in opened:
            continue  # a new workflow finds out by itself
        yield Finding(
            FindingKind.CLAIM_WITHOUT_INSTANCE,
            claim.name,
            claim.launched_at or claim.created_at,
            claim=claim.name,
            uid=claim.uid,
            instance_id=claim.instance_id,
            node_name=claim.node_name,
            registered=claim.registered,
            confirmed=state is not None,
        )


def with_due_instances(observations: Observations, graces: Graces) -> Iterator[ObservedClaim]:
    """Yield launched claims whose instance EC2 must know, unless it is lost."""
    for claim in observations.managed_claims:
        launched = observations.now - (claim.launched_at or claim.created_at) >= graces.launched
        if claim.instance_id and launched and not claim.terminating:
            yield claim


def without_node(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield registered claims whose instance runs but whose Node is gone, as after a deletion without finalizer.

    A sweep reads Nodes after NodeClaims, so a Node that has just joined is not missing.
    """
    if observations.claims is None or observations.nodes is None or observations.instances is None:
        return
    states = observations.known_states
    registered_last = sorted(observations.nodes, key=lambda node: node.registered)
    nodes = {key: node for node in registered_last for key in (node.name, node.provider_id)}
    for claim in registered(observations):
        node = nodes.get(claim.provider_id) or nodes.get(claim.node_name)
        since = (node.created_at if node else claim.registered_at) or observations.now
        if states.get(claim.instance_id) != "running" or observations.now - since < graces.node:
            continue
        if has_lost_node(claim, node):
            yield Finding(
                FindingKind.CLAIM_WITHOUT_NODE,
                claim.name,
                since,
                claim=claim.name,
                uid=claim.uid,
                instance_id=claim.instance_id,
                node_name=node.name if node else claim.node_name,
            )


def registered(observations: Observations) -> Iterator[ObservedClaim]:
    """Yield the registered claims that stay."""
    for claim in observations.managed_claims:
        if claim.registered_at is not None and claim.deleted_at is None and not claim.terminating:
            yield claim


def has_lost_node(claim: ObservedClaim, node: ObservedNode | None) -> bool:
    """Whether a registered claim has no Node, or one that its kubelet created again.

    A claim is registered once, so nothing removes the taint karpenter.sh/unregistered from that Node.
    """
    if claim.registered_at is None:
        return False
    return node is None or (not node.registered and node.created_at > claim.registered_at)


def without_workflow(observations: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield claims without an open workflow.

    A deleted claim that only finalizers of others hold is finished, unless its instance still runs.
    """
    if observations.claims is None or observations.workflows is None:
        return
    running = {instance.id for instance in observations.instances or () if instance.state not in GONE_STATES}
    running |= {instance.claim for instance in observations.instances or () if instance.state not in GONE_STATES}
    opened = observations.open_claims
    for claim in observations.managed_claims:
        if claim.name in opened or observations.now - claim.created_at < graces.workflow:
            continue
        if claim.foreign_finalizers and not running & {claim.name, claim.instance_id} - {""}:
            continue
        yield Finding(
            FindingKind.CLAIM_WITHOUT_WORKFLOW,
            claim.name,
            claim.created_at,
            claim=claim.name,
            uid=claim.uid,
            pool=claim.pool,
        )


def held_by_foreign_finalizers(observations: Observations) -> Iterator[Finding]:
    """Yield deleted claims that Tenon has released but another controller's finalizer holds."""
    for claim in observations.managed_claims:
        if claim.foreign_finalizers and claim.deleted_at is not None:
            yield Finding(
                FindingKind.FOREIGN_FINALIZER,
                claim.name,
                claim.deleted_at,
                claim=claim.name,
                uid=claim.uid,
                finalizers=claim.foreign_finalizers,
            )
