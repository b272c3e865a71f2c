"""Why a node leaves and who removes it: the annotation of its NodeClaim, and the sentences of timeline and events.

Whatever deletes a NodeClaim records its reason there first, because a deletion says none, and a workflow that was
terminated is started again with only what its NodeClaim says.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import TypeAdapter, ValidationError

from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON, DRIFTED
from tenon.apis.reasons import Reason, camel_case
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import time_text
from tenon.messages.node import Removal
from tenon.money import per_hour
from tenon.node import ids
from tenon.node.state import NodeState
from tenon.sentences import lasting, shortened

MAX_DETAIL = 300
MAX_NAME = 100
"""How long a reason or an actor may be. Temporal refuses long search attributes."""
MAX_REMOVALS = 5
"""How many reasons a NodeClaim keeps."""
WORKFLOW = "the node's workflow"
"""The actor of what a node's workflow decides by itself: expiry and timeouts."""
SOMEBODY = "kubectl or another controller"
"""The actor of a deletion that Tenon did not request. Kubernetes does not keep whose request it was."""

_removals = TypeAdapter(tuple[Removal, ...])


def deletion(kind: str) -> Removal:
    """Return the reason of a deletion of a NodeClaim or Node that Tenon did not request."""
    return Removal(reason=Reason.DELETED, detail=f"the {kind} was deleted", actor=SOMEBODY)


_COMMAND = "command "


def command_text(command: str) -> str:
    """Return the actor of what a disruption command does."""
    return f"{_COMMAND}{command}"


def command_of(actor: str) -> str:
    """Return the disruption command that an actor is; empty for another actor."""
    return actor.removeprefix(_COMMAND) if actor.startswith(_COMMAND) else ""


def approval_text(reason: str, command: str, since: datetime | None) -> str:
    """Return that the removal of a node waits for a person, in a clause. Without ``command`` no one is asked yet."""
    clause = f"its removal as {reason} waits for approval"
    since_text = f" since {time_text(since)}" if since is not None else ""
    return f"{clause}{since_text}: `tenon approve {command}`" if command else clause


def recorded(annotations: Mapping[str, str]) -> tuple[Removal, ...]:
    """Return why a NodeClaim is being deleted, the first reason first. Users can write anything into an annotation."""
    try:
        removals = _removals.validate_json(annotations.get(labels.DELETED_BECAUSE) or "[]")[:MAX_REMOVALS]
    except ValidationError:
        return ()
    return tuple(_short(removal) for removal in removals if removal.reason)


def removal_of(claim: ClaimRecord) -> Removal:
    """Return the first reason why a node leaves whose NodeClaim or Node is being deleted, as the NodeClaim says it.

    Karpenter records no annotation, but the reason of a disruption command as a condition. A command or reboot of Tenon
    sets that condition too, before it deletes: then somebody else deleted the NodeClaim first.
    """
    if removals := recorded(claim.annotations):
        return removals[0]
    if not claim.is_true(DISRUPTION_REASON) or claim.disrupted_by or claim.rebooting:
        return deletion("NodeClaim" if claim.deleting else "Node")
    reason = str(claim.condition(DISRUPTION_REASON).get("reason") or "unknown")
    drift = claim.condition(DRIFTED) if Reason.of(reason) is Reason.DRIFTED and claim.is_true(DRIFTED) else {}
    detail = ": ".join(filter(None, (drift.get("reason"), drift.get("message"))))
    return Removal(reason=reason, detail=detail, actor="a disruption command")


def with_removal(annotations: Mapping[str, str], removal: Removal, *, deleting: bool) -> dict[str, str]:
    """Return the annotation that has the removal too; empty if it has one for this reason, or is full.

    ``deleting``: the NodeClaim is being deleted already, so the removal is not the first reason.
    """
    present = recorded(annotations) or ((deletion("NodeClaim"),) if deleting else ())
    if len(present) == MAX_REMOVALS or removal.reason in {earlier.reason for earlier in present}:
        return {}
    text = _removals.dump_json((*present, _short(removal)), exclude_defaults=True).decode()
    return {labels.DELETED_BECAUSE: text}


def _short(removal: Removal) -> Removal:
    return evolve(
        removal,
        reason=shortened(removal.reason, MAX_NAME),
        detail=shortened(removal.detail, MAX_DETAIL),
        actor=shortened(removal.actor, MAX_NAME),
        trace=removal.trace[:MAX_NAME],
    )


def removal_text(removal: Removal) -> str:
    """Return why and by whose wish: 'Unhealthy: Ready is False (...)', with the reason as search attributes have it.

    Empty without a reason: the result of a node that was never asked to leave has none.
    """
    return f"{camel_case(removal.reason)}{_more(removal)}" if removal.reason else ""


def removal_on_page(removal: Removal, cluster: str) -> str:
    """Return the same with the whole workflow ID of a command, which a page cannot link to."""
    command = command_of(removal.actor)
    actor = f"workflow {ids.command_id(cluster, command)}" if command else removal.actor
    return removal_text(evolve(removal, actor=actor))


def why_it_leaves(state: NodeState) -> str:
    """Return why the node leaves, by whose wish and since when; empty if it stays."""
    leave = state.leave
    if leave is None:
        return ""
    since = f" for {lasting(leave.asked_at - leave.since)}" if leave.since is not None else ""
    return f"{camel_case(leave.reason)}{since}{_more(leave)}"


def _more(removal: Removal) -> str:
    detail = f": {removal.detail[:MAX_DETAIL]}" if removal.detail else ""
    return f"{detail} ({removal.actor})" if removal.actor else detail


def life(state: NodeState) -> str:
    """Return the instance type, its price and how long the node lived until it left; empty without an instance."""
    instance, leave = state.instance, state.leave
    if instance is None or leave is None:
        return ""
    began = instance.launched_at or state.created_at
    lived = f", lived {lasting(leave.asked_at - began)}" if began is not None else ""
    price = f", {per_hour(instance.price)}" if instance.price else ""
    return f"{instance.instance_type}{price}{lived}"
