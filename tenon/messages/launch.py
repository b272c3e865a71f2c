"""The messages about the launch of one instance."""

from datetime import datetime

from pydantic import Field
from pydantic.dataclasses import dataclass

from tenon.messages.base import ClaimRef, Message
from tenon.messages.node import RebootRequest, Removal
from tenon.messages.offerings import OfferingRef


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOverride:
    """One override of a fleet request: an instance type in a subnet.

    A launch keeps up to 60 of them, and a burst thousands. A model would take five times the memory of a dataclass.
    """

    instance_type: str
    zone: str
    subnet_id: str
    price: float
    priority: float | None = None
    reservation_id: str = ""
    """The capacity reservation that the template of the override launches into; empty for none."""


class FleetTemplate(Message):
    """A launch template by name (always its latest version) and the overrides that use it."""

    name: str
    image_id: str
    overrides: list[FleetOverride]


class LaunchGroup(Message):
    """A claim's place in a group of NodeClaims of one batch that request the same and launch with one fleet request."""

    id: str
    ordinal: int
    size: int


class LaunchRequest(Message):
    """The exact EC2 Fleet request of one launch attempt.

    It is recorded before it is sent, so that a retry repeats it.
    """

    client_token: str
    capacity_type: str
    templates: list[FleetTemplate]
    tags: dict[str, str]
    context: str = ""
    reservation_type: str = ""
    """The type of the capacity reservations, which are all of one type; empty for none."""
    reservation_interruptible: bool = False
    placement_group: str = ""
    """The ID of the placement group that the instance is launched into; empty for none."""
    placement_strategy: str = ""
    partition: int = 0
    """The partition of the placement group; 0 if EC2 chooses it, or if the group has none."""
    made_from: dict[str, str] = Field(default_factory=dict)
    """The NodeClaim's annotations about the EC2NodeClass that the request was made from. The class may change later."""
    left_out: FleetOverride | None = None
    """The cheapest offering that the claim allows and that EC2 refused a moment ago, without a subnet."""
    group: LaunchGroup | None = None
    """The launch group of the claim. The group launches with this request, but with the group's size, token and tags.

    A worker that does not know groups sends the request as it is, for this claim alone.
    """


class Instance(Message):
    """A launched EC2 instance."""

    id: str
    provider_id: str
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str
    price: float
    """Dollars per hour."""
    private_dns_name: str = ""
    launched_at: datetime | None = None
    reservation_id: str = ""
    """The capacity reservation whose place it takes; empty if it takes none."""
    reservation_type: str = ""
    reservation_interruptible: bool = False
    partition: int = 0
    """The partition of its placement group; 0 if it is in none."""
    placement_group_id: str = Field("", exclude=True)
    """Its placement group, for the labels of the NodeClaim. Not sent to workflows; empty if it is in none."""
    subnet_id: str = Field("", exclude=True)
    """The subnet, for the NodeClaim. Not sent to workflows; empty if EC2 did not describe the instance."""
    security_group_ids: tuple[str, ...] = Field((), exclude=True)
    """The security groups, sorted, for the NodeClaim. Not sent to workflows; empty as above."""


class ClaimView(Message):
    """What a workflow needs to know about its NodeClaim. The manifest would fill the history.

    ``exists`` is false if the claim, or this UID of it, is gone.
    """

    exists: bool = False
    deleting: bool = False
    removals: tuple[Removal, ...] = ()
    """Why the claim is being deleted, as far as Tenon recorded it."""
    pool: str = ""
    node_class: str = ""
    created_at: datetime | None = None
    expire_after_seconds: float | None = None
    termination_grace_seconds: float | None = None
    keep_until: datetime | None = None
    instance: Instance | None = None
    """Set if the claim was launched before: read from its provider ID and EC2."""
    node_name: str = ""
    registered: bool = False
    initialized: bool = False
    planned_pods: int = 0
    """How many pods the claim was bought for."""
    explanation: list[str] = Field(default_factory=list)
    """Why the claim was bought, in lines."""
    bought_for: str = ""
    """What it was bought for, in a clause."""
    reboot: RebootRequest | None = None
    """The reboot that the claim records."""
    reboots: tuple[datetime, ...] = ()
    """When its last reboots were requested."""
    initialization_timeout_seconds: float | None = None
    """How long a registered node may take to initialize; None for no limit, as in Karpenter."""


class PrepareLaunchInput(Message):
    """Asks for the fleet request of a launch attempt. Attempts count from 1."""

    claim: ClaimRef
    attempt: int = 1
    """If the NodeClaim records a later attempt, made by a workflow that was terminated, that one is prepared."""
    began_at: datetime | None = None
    """When the node's first workflow run began."""


class LaunchWait(Message):
    """A launch that failed and is retried; the claim stays."""

    reason: str
    message: str
    has_answer: bool = True
    """True if EC2 refused the launch; false if EC2 was too busy or did not answer."""
    breaker_open: bool = False
    """True if the launch was not tried, because a breaker holds it back."""
    not_before: datetime | None = None
    """The earliest time of the next try."""
    unsettled: bool = False
    """True if the request may have bought an instance anyway.

    Then only the same request, with its token, may be sent again.
    """
    accepted: bool = False
    """True if EC2 had accepted the request before, so a repetition buys nothing more."""
    new_token: bool = False
    """True if EC2 can buy an instance only for a request with another token, which may be sent at once."""
    launched: bool = False
    """True if the claim was launched before, and only whether its instance still exists is unknown."""
    class_fault: str = ""
    """What of the EC2NodeClass EC2 refused: `tenon.ec2.refusals.class_faults`."""


class PrepareLaunchResult(Message):
    """What the claim asks for.

    Without ``request`` there is nothing to launch: already launched, leaving, or refused.
    """

    view: ClaimView
    request: LaunchRequest | None = None
    reason: str = ""
    message: str = ""
    waits: LaunchWait | None = None
    attempt: int = 0
    """The attempt that ``request`` is for; 0 for the one that was asked for."""


class LaunchInput(Message):
    """Sends a recorded request."""

    claim: ClaimRef
    request: LaunchRequest
    attempt: int = 0
    """The attempt of the request; 0 if it is unknown."""
    unsettled: bool = False
    """True if an earlier sending of the request may have bought an instance that EC2 does not show yet."""


class LaunchResult(Message):
    """Either the instance, or the reason why there is none. ``unavailable`` lists the offerings without capacity."""

    instance: Instance | None = None
    unavailable: list[OfferingRef] = Field(default_factory=list)
    reason: str = ""
    message: str = ""
    waits: LaunchWait | None = None
