"""Which NodeClaims count as registered or failed, and what the condition NodeRegistrationHealthy says of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.common import Condition, ConditionStatus
from tenon.apis.conditions import get_condition
from tenon.apis.nodepool import NODE_REGISTRATION_HEALTHY, NodePool
from tenon.kube.claim_record import ClaimRecord
from tenon.provisioning.registration_health import (
    RegistrationResult,
    is_outdated,
    recovered_results,
    result_of,
    with_registration_health,
)
from tests.activities.provisioning.fake_view import node_pool
from tests.worker.cache.objects import claim

CREATED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW = CREATED + timedelta(hours=1)
GOOD = RegistrationResult(registered=True)
BAD = RegistrationResult(False, "RegistrationFailed", "NodeClaim a did not register within 15 minutes")


def stamp(seconds: float) -> str:
    return (CREATED + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def after(*, deleted: float | None = None, **conditions: tuple[str, str, float]) -> ClaimRecord:
    """A NodeClaim with conditions as (status, reason, seconds after its creation)."""
    meta: dict[str, Any] = {"creationTimestamp": stamp(0)}
    if deleted is not None:
        meta["deletionTimestamp"] = stamp(deleted)
    result = [
        {"type": type_, "status": status, "reason": reason, "message": "why", "lastTransitionTime": stamp(seconds)}
        for type_, (status, reason, seconds) in conditions.items()
    ]
    return claim("a", node_name="", meta=meta, status={"conditions": result})


LAUNCHED = ("True", "Launched", 10)


@pytest.mark.parametrize(
    ("claim_record", "registered"),
    [
        (after(Launched=LAUNCHED), None),
        (after(Launched=LAUNCHED, Registered=("Unknown", "NodeNotFound", 20)), None),
        (after(Launched=LAUNCHED, Registered=("True", "Registered", 60)), True),
        (after(Launched=LAUNCHED, Registered=("True", "Registered", 60), deleted=90), True),
        (after(Launched=LAUNCHED, deleted=910), False),
        (after(Launched=LAUNCHED, deleted=600), None),
        (after(Launched=("Unknown", "LaunchFailed", 1), deleted=300), False),
        (after(Launched=("Unknown", "LaunchFailed", 1), deleted=200), None),
        (after(Launched=("Unknown", "LaunchFailed", 1)), None),
        (after(Launched=("Unknown", "InsufficientCapacity", 1), deleted=400), None),
        (after(Launched=("Unknown", "NodeClassNotReady", 1), deleted=400), None),
    ],
)
def test_lif05_lif06_what_counts_as_a_result(claim_record: ClaimRecord, registered: bool | None) -> None:
    """A claim that is deleted before its time is over says nothing, and a lack of capacity is no fault of the pool."""
    result = result_of(claim_record)
    assert (result.registered if result is not None else None) == registered


def test_lif06_a_pool_says_what_the_console_of_the_late_instance_said() -> None:
    late = result_of(after(Launched=LAUNCHED, Registered=("Unknown", "NodeNotJoined", 200), deleted=910))
    assert late is not None
    assert late.message == "NodeClaim a did not register within 15 minutes: why"
    early = result_of(after(Launched=LAUNCHED, Registered=("Unknown", "NodeNotFound", 200), deleted=910))
    assert early is not None
    assert early.message == "NodeClaim a did not register within 15 minutes"


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([], "Unknown"),
        ([GOOD], "True"),
        ([BAD], "Unknown"),
        ([BAD, GOOD], "True"),
        ([GOOD, BAD], "True"),
        ([GOOD, GOOD, BAD, BAD], "False"),
        ([BAD, GOOD, GOOD, GOOD], "True"),
        ([BAD, BAD, GOOD], "False"),
    ],
)
def test_lif06_two_failures_of_the_last_four_are_unhealthy(results: list[RegistrationResult], status: str) -> None:
    condition = get_condition(
        with_registration_health([], results, now=NOW, observed_generation=3), NODE_REGISTRATION_HEALTHY
    )
    assert condition is not None
    assert (condition.status, condition.observed_generation) == (status, 3)
    assert (condition.reason == BAD.reason) == (status == "False")


def pool(
    status: ConditionStatus | None, *, generation: int = 2, observations: int | None = 2, class_seen: int | None = 5
) -> NodePool:
    """A NodePool with the condition as an earlier leader left it."""
    conditions = []
    if status is not None:
        reason = BAD.reason if status == "False" else NODE_REGISTRATION_HEALTHY
        conditions = [
            Condition(
                type=NODE_REGISTRATION_HEALTHY,
                status=status,
                reason=reason,
                message=BAD.message,
                last_transition_time=CREATED,
                observed_generation=observations,
            )
        ]
    result = node_pool()
    metadata = result.metadata.model_copy(update={"generation": generation})
    remainder = {"conditions": conditions, "node_class_observed_generation": class_seen}
    return result.model_copy(update={"metadata": metadata, "status": result.status.model_copy(update=remainder)})


@pytest.mark.parametrize("status", ["True", "False", "Unknown", None])
def test_ctl21_a_new_leader_says_the_same(status: ConditionStatus | None) -> None:
    results = recovered_results(pool(status))
    condition = get_condition(
        with_registration_health([], results, now=NOW, observed_generation=2), NODE_REGISTRATION_HEALTHY
    )
    assert condition is not None
    assert condition.status == (status or "Unknown")
    reasons = {"True": NODE_REGISTRATION_HEALTHY, "False": BAD.reason}
    assert condition.reason == reasons.get(condition.status, "AwaitingReconciliation"), "as in Karpenter"


@pytest.mark.parametrize(
    ("pool", "class_generation", "outdated"),
    [
        (pool("False"), 5, False),
        (pool("False", generation=3), 5, True),
        (pool("False"), 6, True),
        (pool("False"), None, False),
        (pool("True", class_seen=None), 6, False),
        (pool("True", observations=None), 5, False),
        (pool(None, generation=3), 6, False),
    ],
)
def test_lif06_nps3_a_change_of_pool_or_class_makes_results_outdated(
    pool: NodePool, class_generation: int | None, outdated: bool
) -> None:
    assert is_outdated(pool, class_generation) is outdated
