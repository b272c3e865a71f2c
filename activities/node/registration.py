"""The step "register node": copy labels and taints from the NodeClaim to the Node that joined, and record its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import Clock, ConditionUpdate, label_claim, read_claim, update_conditions
from activities.kubernetes.resources import NODES
from activities.node.nodes import find_node
from tenon.apis.nodeclaim import REGISTERED
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.messages.node_steps import NodeInput, RegisterResult
from tenon.node.registration import NODE_NOT_FOUND, NOT_JOINED, minutes_late, not_joined, registration

LateLabels = Callable[[ClaimRecord], Awaitable[Mapping[str, str]]]
"""Returns the labels that could not be known when the instance was launched."""


Registered = Callable[[ClaimRecord, str], None]
"""Called with the claim as it was written and the name of its Node, once the Node is registered."""


Explain = Callable[[ClaimRecord], Awaitable[str]]
"""Returns what the console output of a claim's instance says, as the end of a sentence."""


async def no_late_labels(claim: ClaimRecord) -> Mapping[str, str]:  # noqa: ARG001
    """There are none."""
    return {}


async def register(
    kube: Kube,
    recorder: EventPublisher,
    node_input: NodeInput,
    now: Clock,
    late_labels: LateLabels = no_late_labels,
    registered: Registered | None = None,
    explain: Explain | None = None,
) -> RegisterResult:
    """Register the claim's Node, or report what is missing. Write the Node before the claim's Registered condition.

    ``explain`` is asked why no Node has joined, if one should have.
    """
    claim = await read_claim(kube, node_input.claim)
    if claim is None:
        return RegisterResult(reason="NodeClaimGone", message=f"NodeClaim {node_input.claim.name} is gone")
    match = await find_node(kube, node_input, claim)
    console = ""
    if explain is not None and match.reason == NODE_NOT_FOUND and minutes_late(claim, now()):
        console = await explain(claim)
        claim = await read_claim(kube, node_input.claim)  # EC2 may have taken long to answer
        if claim is None:
            return RegisterResult(reason="NodeClaimGone", message=f"NodeClaim {node_input.claim.name} is gone")
        match = await find_node(kube, node_input, claim)
        if match.reason == NODE_NOT_FOUND:
            match = not_joined(claim, console)
    if match.node is None:
        missing = ConditionUpdate(REGISTERED, "Unknown", match.reason, match.message)
        await update_conditions(kube, node_input.claim, [missing], now, read_object=claim.body)
        if match.reason != NOT_JOINED:
            return RegisterResult(reason=match.reason, message=match.message)
        await recorder.publish(claim.body, EventReason.NODE_NOT_JOINED, match.message)
        return RegisterResult(reason=match.reason, message=match.message, console=console)
    if late := await late_labels(claim):  # first, so that the Node gets them as well
        claim = await label_claim(kube, node_input.claim, late, claim.body)
        if claim is None:
            return RegisterResult(reason="NodeClaimGone", message=f"NodeClaim {node_input.claim.name} is gone")
    name = match.node["metadata"]["name"]
    if registration(claim.body, match.node).unregistered_taint_missing:
        text = (
            f"Node {name} joined without the taint karpenter.sh/unregistered:NoExecute, so pods may have started "
            "before Tenon added its labels and taints: add the taint to the kubelet's arguments in its user data"
        )
        for subject in (claim.body, match.node):
            await recorder.publish(subject, EventReason.UNREGISTERED_TAINT_MISSING, text)
    written = await change(
        kube,
        NODES,
        name,
        lambda node: registration(claim.body, node).patch,
        uid=object_json.uid(match.node),
        read_object=match.node,
    )
    if written is None:
        return RegisterResult(reason="NodeNotFound", message=f"Node {name} went away while it was registered")
    after = await update_conditions(
        kube,
        node_input.claim,
        [ConditionUpdate(REGISTERED, "True")],
        now,
        fields={"nodeName": name},
        read_object=claim.body,
    )
    if after is None:
        return RegisterResult(reason="NodeClaimGone", message=f"NodeClaim {node_input.claim.name} is gone")
    if registered is not None:
        registered(after, name)
    return RegisterResult(node_name=name)
