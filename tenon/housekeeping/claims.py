"""NodeClaims that lost their instance or workflow, or that another controller's finalizer holds."""

from __future__ import annotations

from collections.abc import Iterator

from tenon.housekeeping.facts import ENDED_STATES, GONE_STATES, Graces, Observations, ObservedClaim
from tenon.housekeeping.findings import Finding, Kind


def without_instance(seen: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield launched claims whose instance is unknown to EC2 or terminated.

    A registered claim counts only if its Node is not Ready.
    """
    if seen.claims is None or seen.instances is None or seen.states is None or seen.workflows is None:
        return
    states = seen.known_states
    opened = seen.open_claims
    ready = {node.provider_id for node in seen.nodes or () if node.ready}
    for claim in with_due_instances(seen, graces):
        state = states.get(claim.instance_id)
        if state not in ENDED_STATES:
            continue
        if claim.registered and (seen.nodes is None or claim.provider_id in ready):
            continue
        if claim.name not in opened:
            continue  # a new workflow finds out by itself
        yield Finding(
            Kind.CLAIM_WITHOUT_INSTANCE,
            claim.name,
            claim.launched_at or claim.created_at,
            claim=claim.name,
            uid=claim.uid,
            instance_id=claim.instance_id,
            node_name=claim.node_name,
            registered=claim.registered,
            confirmed=state is not None,
        )


def with_due_instances(seen: Observations, graces: Graces) -> Iterator[ObservedClaim]:
    """Yield launched claims whose instance EC2 must know, unless it is lost."""
    for claim in seen.managed_claims:
        launched = seen.now - (claim.launched_at or claim.created_at) >= graces.launched
        if claim.instance_id and launched and not claim.terminating:
            yield claim


def without_workflow(seen: Observations, graces: Graces) -> Iterator[Finding]:
    """Yield claims without an open workflow.

    A deleted claim that only finalizers of others hold is finished, unless its instance still runs.
    """
    if seen.claims is None or seen.workflows is None:
        return
    running = {instance.id for instance in seen.instances or () if instance.state not in GONE_STATES}
    running |= {instance.claim for instance in seen.instances or () if instance.state not in GONE_STATES}
    opened = seen.open_claims
    for claim in seen.managed_claims:
        if claim.name in opened or seen.now - claim.created_at < graces.workflow:
            continue
        if claim.foreign_finalizers and not running & {claim.name, claim.instance_id} - {""}:
            continue
        yield Finding(
            Kind.CLAIM_WITHOUT_WORKFLOW,
            claim.name,
            claim.created_at,
            claim=claim.name,
            uid=claim.uid,
            pool=claim.pool,
        )


def held_by_foreign_finalizers(seen: Observations) -> Iterator[Finding]:
    """Yield deleted claims that Tenon has released but another controller's finalizer holds."""
    for claim in seen.managed_claims:
        if claim.foreign_finalizers and claim.deleted_at is not None:
            yield Finding(
                Kind.FOREIGN_FINALIZER,
                claim.name,
                claim.deleted_at,
                claim=claim.name,
                uid=claim.uid,
                finalizers=claim.foreign_finalizers,
            )
