"""Why a node leaves, who asked for it and what the node was, in the sentence of its events.

A controller that deletes a NodeClaim records its reason there, because its node's workflow sees only the deletion.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.apis.reasons import Reason, camel_case
from tenon.lifecycle.state import NodeState
from tenon.sentences import lasting

MAX_WHY = 300


def why_it_leaves(state: NodeState) -> str:
    """Return the reason in the spelling of conditions, since when it holds, and who asked; empty if it stays."""
    leave = state.leave
    if leave is None:
        return ""
    since = f" for {lasting(leave.asked_at - leave.since)}" if leave.since is not None else ""
    message = f": {leave.message}" if leave.message else ""
    command = f" (command {leave.command})" if leave.command else ""
    return f"{camel_case(leave.reason)}{since}{message[:MAX_WHY]}{command}"


def life(state: NodeState) -> str:
    """Return the instance type, its price and how long the node lived until it left; empty without an instance."""
    instance, leave = state.instance, state.leave
    if instance is None or leave is None:
        return ""
    began = instance.launched_at or state.created_at
    lived = f", lived {lasting(leave.asked_at - began)}" if began is not None else ""
    price = f", ${instance.price:.4f}/h" if instance.price else ""
    return f"{instance.instance_type}{price}{lived}"


def recorded_why(why: str, reason: str, annotations: Mapping[str, str]) -> str:
    """Return why a node leaves: what the part of Tenon that deleted its NodeClaim recorded there, else ``why``."""
    if reason == Reason.DELETED and (recorded := annotations.get(labels.DELETED_BECAUSE)):
        return recorded
    return why
