"""The condition NodeRegistrationHealthy of a NodePool: whether its launched nodes become Nodes (LIF-06).

It follows from the last four NodeClaims. It only informs: it is not part of Ready, and plans do not look at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition, set_condition
from tenon.apis.nodeclaim import LAUNCHED, REGISTERED
from tenon.apis.nodepool import NODE_REGISTRATION_HEALTHY, NodePool
from tenon.apis.reasons import Reason
from tenon.kube.claim_record import ClaimRecord
from tenon.node.launch_retry import LAUNCH_TIMEOUT
from tenon.node.registration import NOT_JOINED
from tenon.node.startup_stages import REGISTRATION_TIMEOUT

RESULTS = 4
"""How many results count."""
MAX_FAILURES = 1
_ROUNDING = timedelta(seconds=2)
"""Times in NodeClaims are whole seconds."""
_NO_FAULT_OF_ITS_SPEC = frozenset({Reason.INSUFFICIENT_CAPACITY.camel_case, Reason.NODECLASS_NOT_READY.camel_case})
AWAITING = "AwaitingReconciliation"
"""Karpenter's reason of a condition that nothing is known of yet."""
_NOTHING_KNOWN = "No NodeClaim has registered since the NodePool or its EC2NodeClass changed"


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """Whether a NodeClaim registered. If it did not, ``reason`` and ``message`` say why, as in the condition."""

    registered: bool
    reason: str = ""
    message: str = ""


def result_of(claim: ClaimRecord) -> RegistrationResult | None:
    """Return the result of a NodeClaim; None while it is open, or if it ended before its time was over."""
    if claim.registered:
        return RegistrationResult(registered=True)
    if claim.deleted_at is None:
        return None
    if claim.launched_at is not None:
        if claim.deleted_at - claim.launched_at < REGISTRATION_TIMEOUT - _ROUNDING:
            return None
        minutes = int(REGISTRATION_TIMEOUT.total_seconds() // 60)
        message = f"NodeClaim {claim.name} did not register within {minutes} minutes"
        late = claim.condition(REGISTERED)
        if late.get("reason") == NOT_JOINED:
            message += f": {late.get('message', '')}"
        return RegistrationResult(False, "RegistrationFailed", message)
    launched = claim.condition(LAUNCHED)
    reason = str(launched.get("reason") or "LaunchFailed")
    waited = claim.deleted_at - (claim.created_at or claim.deleted_at)
    if waited < LAUNCH_TIMEOUT - _ROUNDING or reason in _NO_FAULT_OF_ITS_SPEC:
        return None
    return RegistrationResult(False, reason, str(launched.get("message") or f"NodeClaim {claim.name} was not launched"))


def recovered_results(pool: NodePool) -> tuple[RegistrationResult, ...]:
    """Return results that lead to the pool's present condition, for a process that has not seen the real ones."""
    present_condition = get_condition(pool.status.conditions, NODE_REGISTRATION_HEALTHY)
    if present_condition is None or present_condition.status == "Unknown":
        return ()
    if present_condition.status == "True":
        return (RegistrationResult(registered=True),)
    return (RegistrationResult(False, present_condition.reason, present_condition.message),) * (MAX_FAILURES + 1)


def is_outdated(pool: NodePool, class_generation: int | None) -> bool:
    """Whether the pool or its EC2NodeClass changed since its results were counted, so that they no longer count."""
    present_condition = get_condition(pool.status.conditions, NODE_REGISTRATION_HEALTHY)
    if present_condition is None:
        return False
    if (
        present_condition.observed_generation is not None
        and present_condition.observed_generation != pool.metadata.generation
    ):
        return True
    observed_generation = pool.status.node_class_observed_generation
    return observed_generation is not None and class_generation is not None and observed_generation != class_generation


def with_registration_health(
    conditions: Sequence[Condition],
    results: Sequence[RegistrationResult],
    *,
    now: datetime,
    observed_generation: int | None,
) -> list[Condition]:
    """Set the condition. A single failure without a success leaves it Unknown."""
    failures = [result for result in results if not result.registered]
    if len(failures) > MAX_FAILURES:
        reason, message = failures[-1].reason, failures[-1].message
        return set_condition(
            conditions,
            NODE_REGISTRATION_HEALTHY,
            "False",
            now=now,
            reason=reason,
            message=message[:1000],
            observed_generation=observed_generation,
        )
    is_known = len(failures) < len(results)
    return set_condition(
        conditions,
        NODE_REGISTRATION_HEALTHY,
        "True" if is_known else "Unknown",
        now=now,
        reason=NODE_REGISTRATION_HEALTHY if is_known else AWAITING,
        message="" if is_known else _NOTHING_KNOWN,
        observed_generation=observed_generation,
    )
