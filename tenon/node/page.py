"""A node's page in Temporal's UI, for someone who has never seen one.

It says what this is, what happens now, what blocks it and what resolves that, and what one can send. A workflow's input
and static details come first on the page, so the sentences there are made here too.
"""

from __future__ import annotations

from tenon.evolve import evolve
from tenon.messages.base import ClaimRef
from tenon.money import per_hour
from tenon.node.leave_text import removal_on_page
from tenon.node.operator_help import help_lines
from tenon.node.operator_requests import offered
from tenon.node.remedies import report
from tenon.node.state import NodeClaimInput, NodeState, Stage, expiry
from tenon.node.timeline import clock, facts, story
from tenon.sentences import for_temporal_ui, shortened

MAX_SENTENCE = 400
"""How long a sentence of the input may be."""
MAX_PAGE = 5000
"""How long a page may be. Temporal's UI puts it into a URL, and proxies refuse one with more than about 8 KB."""
LINE_OVERHEAD = 25
"""The characters of a line of the timeline besides its text."""
KEPT_LINES = 8
"""How many lines of its timeline a long page keeps."""
ABOUT = "This workflow is the life of one node, from its launch until its instance is terminated."
_KEPT = "This page stays as long as Temporal keeps the history."
_NOW = {
    Stage.PREPARING: "It chooses instance types and prepares the request to EC2.",
    Stage.LAUNCHING: "It asks EC2 for an instance.",
    Stage.REGISTERING: "It waits until the instance has booted and its Node has joined the cluster.",
    Stage.INITIALIZING: "It waits until the Node is ready, without startup taints, and shows all its resources.",
    Stage.BINDING: "It binds the pods that it was bought for.",
    Stage.LIVE: "It runs pods. This workflow only waits: for the node's expiry, for Tenon's disruption, or for you.",
    Stage.REBOOTING: "Its machine reboots in place.",
    Stage.CORDONING: "It leaves, and keeps new pods away first.",
    Stage.DRAINING: "It leaves, and evicts its pods within their PodDisruptionBudgets.",
    Stage.DETACHING: "It leaves: its pods are gone, and it waits until their volumes are detached.",
    Stage.TERMINATING: "It leaves: Tenon terminates its instance.",
    Stage.RELEASING: "Its instance is gone. Tenon removes the finalizers of Node and NodeClaim.",
    Stage.ENDED: f"The node is gone. {_KEPT}",
}
"""What happens in each stage."""


def summary(pool: str) -> str:
    """Return the static summary of a node's workflow."""
    return f"node of NodePool {pool}" if pool else "stand-alone node"


def static_details(pool: str) -> str:
    """Return the static details of a node's workflow.

    Temporal shows them until the workflow continues as new, also after the node's end. So what to send, which changes,
    is in the current details alone.
    """
    owner = f"NodePool {pool}" if pool else "a NodeClaim without a NodePool"
    return (
        f"This workflow is the life of one node of {owner}: Tenon launches an instance, waits for its Node, binds "
        "pods, and in the end drains the node and terminates the instance. Current Details say how far it is, and what "
        "you can send."
    )


def first_input(claim: ClaimRef, pool: str, origin: str = "") -> NodeClaimInput:
    """Return the input of a new node's workflow. ``origin``: the span that its NodeClaim was created in."""
    owner = f"NodePool {pool}" if pool else "no NodePool"
    headline = f"The life of one node of {owner}, from its launch until its instance is terminated"
    why = f"NodeClaim {claim.name} was created" if pool else f"Someone created the stand-alone NodeClaim {claim.name}"
    return NodeClaimInput(headline=headline, why=why, claim=claim, pool=pool, origin=origin)


def next_input(begin: NodeClaimInput, state: NodeState) -> NodeClaimInput:
    """Return the input of the next run: how the node is now, and why it was bought or leaves."""
    why = begin.why
    if state.bought_for:
        why = f"It was {'bought' if state.instance else 'created'} for {state.bought_for}"
    if state.leave is not None:
        why = f"It leaves because of {removal_on_page(state.leave, state.claim.cluster)}"
    return evolve(begin, headline=_sentence(headline(state)), why=_sentence(why), state=state)


def headline(state: NodeState) -> str:
    """Say in one line which node this is and how it is: 'Node a of NodePool web is live: m5.large ...'."""
    node = f"Node {state.node_name}" if state.node_name else f"NodeClaim {state.claim.name}"
    owner = f"NodePool {state.pool}" if state.pool else "no NodePool"
    blocked = " and blocked" if state.blocked else ""
    verb = "has" if state.stage is Stage.ENDED else "is"
    parts = [f"{node} of {owner} {verb} {state.stage.value}{blocked}"]
    if (instance := state.instance) is not None:
        parts.append(f"{instance.instance_type}, {instance.capacity_type}, {instance.zone}, {per_hour(instance.price)}")
    if (instant := expiry(state)) is not None and not state.stage.leaving:
        parts.append(f"expires {clock(instant)}")
    return "; ".join(parts)


def current_details(state: NodeState) -> str:
    """Render a node's page as Markdown. It must be a pure function of the state: it is replayed.

    A page that would be too long leaves out the middle of the timeline.
    """
    text = _page(state, state)
    excess, dropped = len(text) - MAX_PAGE, 0
    for entry in state.timeline[1 : 1 - KEPT_LINES]:
        if excess <= 0:
            break
        excess, dropped = excess - len(entry.text) - LINE_OVERHEAD, dropped + 1
    if not dropped:
        return text
    timeline = (*state.timeline[:1], *state.timeline[1 + dropped :])
    return _page(state, evolve(state, timeline=timeline), f"- {dropped} lines left out: query `status` has them")


def _page(state: NodeState, shown: NodeState, *more: str) -> str:
    lines = [f"### {headline(state)}", "", ABOUT, "", f"**Now:** {_now(state)}", ""]
    if blocked := report(state):
        lines += [blocked, ""]
    lines += [
        "#### Facts",
        "",
        *facts(state),
        *story(shown),
        *more,
        "",
        "The history of earlier runs: tab Relationships.",
    ]
    if requests := offered(state):
        lines += ["", *help_lines(requests)]
    return for_temporal_ui("\n".join(lines))


def _now(state: NodeState) -> str:
    if state.stage is Stage.DRAINING and state.leave is not None and state.leave.force:
        return "It leaves by force: Tenon deletes its pods at once."
    if state.stage is Stage.LIVE and state.expiry_waits_until is not None:
        if state.expiry_waits_for:
            return f"It runs pods. It has expired, and waits: NodePool {state.pool} is {state.expiry_waits_for}."
        waits = f"until the disruption budgets of NodePool {state.pool} let it leave"
        return f"It runs pods. It has expired, and waits {waits}."
    if state.stage is Stage.ENDED and state.instance is None:
        return f"No node came of this NodeClaim. {_KEPT}"
    return _NOW[state.stage]


def _sentence(text: str) -> str:
    return shortened(for_temporal_ui(text), MAX_SENTENCE)
