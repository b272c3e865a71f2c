"""What controllers, disruption commands and people say to a node's workflow, and ask of it."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

from tenon.messages.base import Message


class Removal(Message):
    """Why a node is removed and who removes it. The NodeClaim keeps it as an annotation, and the node's workflow
    repeats it in its timeline, its events and its result.
    """

    reason: str
    """A `Reason`, the kind of a notice about the instance, or an error code of EC2."""
    detail: str = ""
    """What exactly: the notice, or the condition and for how long; a clause."""
    actor: str = ""
    """The controller, disruption command or person."""
    by_workflow: bool = False
    """The node's own workflow deletes the NodeClaim, so it needs no poke about the deletion."""
    trace: str = ""
    """The span that asked for it, as a traceparent; empty if that was not traced."""

    @property
    def plain(self) -> "Removal":
        """The same without what a subclass adds."""
        return Removal(reason=self.reason, detail=self.detail, actor=self.actor, trace=self.trace)


class Operator(Message):
    """Who asks something of a node, and why, for its timeline, its result and its events."""

    by: str = ""
    """Who asks: a user of Kubernetes, or USER@HOST."""
    reason: str = ""
    ticket: str = ""
    """Where the reason is written down, such as the key of an issue."""


class OperatorAnswer(Message):
    """Whether the node does what an operator asked. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""


def _with_zone(instant: datetime) -> datetime:
    """Return a time in UTC. One without a zone is read so: Python cannot compare it.

    Raises:
        ValueError: it is out of range in UTC, so that the node's workflow, which says it in UTC, would fail its tasks.
    """
    try:
        return (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{instant.isoformat()} is out of range: name a time of the years 1 to 9999 in UTC") from None


def _whole_seconds(instant: datetime) -> datetime:
    return _with_zone(instant).replace(microsecond=0)


class RebootRequest(Message):
    """Asks a node to reboot its machine in place. The NodeClaim records it, so that every restart finds it again."""

    operation_id: str
    """The same for each repetition of this request: `tenon.node.reboot_record.operation_id` makes it."""
    reason: str
    """What the reboot is for: the condition and its reason as CONDITION/REASON, or an operator's words."""
    repairs: bool = False
    """Node repair asks. If the reboot fails, the node is replaced in any case."""
    policy: str = ""
    """The NodeRepairPolicy that asks; empty if an operator does."""
    drain_seconds: float | None = None
    """For how long pods are evicted at most. The others stay and ride through. None for no limit, 0 for no drain."""
    requested_at: Annotated[datetime, AfterValidator(_whole_seconds)]
    """In whole seconds, as the NodeClaim records it."""
    actor: str = ""
    """The controller or person."""
    ticket: str = ""
    """Where an operator's reason is written down."""


class RebootAnswer(Message):
    """Whether the node reboots for a request. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""


class Poke(Message):
    """Tells the workflow that its node changed. Level-triggered, so lost or duplicate pokes are harmless."""

    node_name: str = ""
    claim_deleting: bool = False
    node_deleting: bool = False
    node_ready: bool = False
    reason: str = ""
    """What changed, for the Temporal UI."""
    removals: tuple[Removal, ...] = ()
    """Why the NodeClaim is being deleted, the first reason first. Empty if Tenon did not delete it."""
    claim_gone: bool = False
    """The NodeClaim is gone although its workflow has not released it."""
    instance_gone: bool = False
    """EC2 no longer knows the instance, or ended it without a request from this workflow."""
    disrupted: bool = False
    """The Node or NodeClaim has the marks of a disruption command, although neither is being deleted."""
    minutes_late: int = 0
    """For how many minutes the instance has had no Node, if its Node should have joined by now."""
    reboot: RebootRequest | None = None
    """The reboot that the NodeClaim records."""
    rebooted: bool = False
    """The Node reports another boot ID than the NodeClaim recorded before that reboot."""


class Disrupt(Message):
    """Asks a node to leave. With ``only_if_empty``, it stays if it has pods."""

    command: str
    reason: str
    detail: str = ""
    since: datetime | None = None
    only_if_empty: bool = False
    unused: bool = False
    """It was bought for a command that has failed: an annotation that protects it does not keep it."""
    drain_seconds: float | None = None
    """The most time that the drain may take, if that is less than the NodeClaim's terminationGracePeriod."""
    fault: str = ""
    """The type of the condition for which node repair removes the node."""
    trace: str = ""
    """The span that asks for it, as a traceparent; empty if that is not traced."""


class DisruptAnswer(Message):
    """Whether the node accepts the command. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""
    leaving: bool = False
    """It refused because it is already leaving, or is gone."""
    price: float = 0.0
    """Dollars an hour of its instance; 0 if it is not known."""


class Keep(Operator):
    """An operator's request to keep a node at least until a given time. People type it in Temporal's UI.

    A time that is over ends an earlier request.
    """

    until: Annotated[datetime, AfterValidator(_with_zone)]
