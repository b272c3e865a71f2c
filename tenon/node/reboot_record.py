"""What a NodeClaim says about the reboot of its machine, so that no restart forgets it.

Karpenter keeps how often it rebooted a node in the memory of its leader. Here the NodeClaim has it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.apis.duration import go_seconds
from tenon.apis.nodeclaim import DISRUPTION_REASON, REBOOTING
from tenon.apis.reasons import Reason
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import format_instant, parse_instant
from tenon.messages.node import RebootRequest

HISTORY = timedelta(hours=24)
"""How long a reboot counts (N15-154)."""
MAX_REBOOTS = 20
"""How many reboots a NodeClaim records. Operators may reboot a node as often as they like."""
REBOOTING_FOR = "rebooting for "
"""How the message of the condition begins, in Karpenter too. Both read the reason of a reboot that the other began."""


def operation_id(uid: str, requested_at: datetime) -> str:
    """Return the ID of the reboot of a NodeClaim that was requested at this time."""
    return f"{uid}-{int(requested_at.timestamp())}"


def recorded_request(claim: ClaimRecord) -> RebootRequest | None:
    """Return the request for the reboot that goes on; None if none does. A malformed drain bound counts as none."""
    requested_at = claim.reboot_requested_at
    if requested_at is None:
        return None
    seconds, _ = drain_bound(claim)
    return RebootRequest(
        operation_id=operation_id(claim.uid, requested_at),
        reason=str(claim.condition(REBOOTING).get("message") or "").removeprefix(REBOOTING_FOR),
        repairs=Reason.of(str(claim.condition(DISRUPTION_REASON).get("reason") or "")) is Reason.UNHEALTHY,
        drain_seconds=seconds,
        requested_at=requested_at,
    )


def request_text(request: RebootRequest) -> str:
    """Return what the reboot is for and who asked: 'AcceleratedHardwareReady/NVIDIAXID46Error (node repair)'."""
    reason = ", ".join(filter(None, (request.reason, request.ticket)))
    return f"{reason} ({request.actor})" if request.actor else reason


def has_ended(claim: ClaimRecord, request: RebootRequest) -> bool:
    """Whether the NodeClaim says that this reboot is over.

    A reboot that ended in the second of the request is the one before it.
    """
    rebooting = claim.condition(REBOOTING)
    ended_at = parse_instant(rebooting.get("lastTransitionTime")) if rebooting.get("status") == "False" else None
    return ended_at is not None and ended_at > request.requested_at and request.requested_at in claim.reboots


def drain_bound(claim: ClaimRecord) -> tuple[float | None, str]:
    """Return for how many seconds the reboot drains at most, None for no limit, and what is wrong with the annotation.

    The second text is empty if nothing is.
    """
    text = claim.annotations.get(labels.REBOOT_GRACE_PERIOD)
    if text is None:
        return None, ""
    seconds = go_seconds(text)
    if seconds is None or seconds < 0:
        name = labels.REBOOT_GRACE_PERIOD
        return None, f"annotation {name} is {text!r}: write a Go duration that is not negative, such as 5m0s"
    return seconds, ""


def annotations_of(claim: ClaimRecord, request: RebootRequest) -> dict[str, str | None]:
    """Return the annotations that record a request; those that are None go."""
    recent = [at for at in claim.reboots if request.requested_at - at < HISTORY and at != request.requested_at]
    times = [*recent, request.requested_at][-MAX_REBOOTS:]
    bound = request.drain_seconds
    return {
        labels.REBOOT_GRACE_PERIOD: None if bound is None else f"{bound:.9f}".rstrip("0").rstrip(".") + "s",
        labels.REBOOT_PRE_BOOT_ID: None,
        labels.REBOOTS: ",".join(map(format_instant, times)),
    }
