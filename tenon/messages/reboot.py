"""The steps of a reboot: fence, drain, record the boot ID, ask EC2, watch the new boot, and end what failed."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from tenon.messages.base import ClaimRef, Message
from tenon.messages.node import RebootRequest
from tenon.messages.node_steps import BlockedPods, NodeInput


class RebootResult(StrEnum):
    """How a reboot ended: the label of the metric."""

    SUCCEEDED = "succeeded"
    PROVIDER_ERROR = "provider_error"
    RECOVERY_TIMEOUT = "recovery_timeout"
    INVALID_REQUEST = "invalid_request"


class FenceInput(NodeInput):
    """Records the request on the NodeClaim if it is not recorded, and keeps new pods away from the Node."""

    request: RebootRequest


class FenceResult(Message):
    """What the NodeClaim records of the reboot, which another controller or workflow may have begun."""

    claim_stays: bool = True
    """False if the NodeClaim is gone or being deleted. Nothing was written."""
    node_exists: bool = True
    request: RebootRequest | None = None
    """The request as the NodeClaim records it."""
    invalid: str = ""
    """What is wrong with the drain bound on the NodeClaim."""
    pre_boot_id: str = ""
    """The boot ID before EC2 was asked to reboot; empty if it was not asked."""
    boot_id: str = ""
    """The boot ID that the Node reports now."""
    issued: bool = False
    """EC2 has accepted the reboot."""
    ended: bool = False
    """The reboot is over, because an operator reset the workflow to a time before that."""
    issued_at: datetime | None = None


class RebootDrainInput(NodeInput):
    """Evicts pods until none is left, until ``until``, or until ``budget_seconds`` have passed. Deletes none."""

    until: datetime | None = None
    budget_seconds: float = 60.0
    why: str = ""
    """What the reboot is for, for events."""


class RebootDrainResult(Message):
    """How many pods are left, and which of them are blocked and why."""

    node_exists: bool = True
    evicted: int = 0
    remaining: int = 0
    blocked: list[BlockedPods] = Field(default_factory=list)


class BootRecord(Message):
    """The boot ID on the NodeClaim, and the one that the Node reports. Empty if the Node is gone or reports none."""

    pre_boot_id: str = ""
    boot_id: str = ""
    ended: bool = False
    """The reboot is over, and nothing was recorded."""


class RebootInput(Message):
    """Asks EC2 to reboot the instance of a claim, whose Node reports ``boot_id``."""

    claim: ClaimRef
    instance_id: str
    request: RebootRequest
    boot_id: str

    @property
    def operation_id(self) -> str:
        """Identifies the call in logs. It is the same for each repetition (N15-158)."""
        return f"{self.request.operation_id}-{self.boot_id}"


class RebootOutcome(StrEnum):
    """What EC2 said."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """It did not reboot the instance, and may do so later."""
    REJECTED = "rejected"
    """It never will."""
    UNKNOWN = "unknown"
    """The call may have reached EC2, and no answer came."""
    WITHDRAWN = "withdrawn"
    """EC2 was not asked: the NodeClaim is being deleted, or is gone."""


class RebootReply(Message):
    """EC2's answer."""

    outcome: RebootOutcome
    message: str = ""


class RebootCheckInput(NodeInput):
    """Looks whether the machine has booted again. ``issued`` says that EC2 accepted the reboot."""

    request: RebootRequest
    boot_id: str
    """The boot ID before the reboot."""
    issued: bool = False
    issued_at: datetime | None = None


class RebootCheck(Message):
    """What the Node reports. ``ended`` is true once the reboot is over: the NodeClaim says that it succeeded."""

    node_exists: bool = True
    rebooted: bool = False
    """The Node reports another boot ID."""
    ready: bool = False
    ended: bool = False


class RebootFailure(NodeInput):
    """Ends a reboot that failed. The Node loses the fence."""

    request: RebootRequest
    result: RebootResult
    message: str
    stays: bool = False
    """The node stays. Otherwise it leaves, at the latest when the drain bound of the reboot is over."""


class RebootEnded(Message):
    """The reboot is over."""
