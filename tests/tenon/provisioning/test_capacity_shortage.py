"""What a capacity shortage makes pods and NodePools say: what EC2 lacks, how many NodeClaims ended, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition
from tenon.apis.nodepool import CAPACITY_AVAILABLE
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.capacity_shortage import (
    LASTS,
    PoolShortage,
    TriedLaunch,
    is_over,
    refused_again,
    what_ec2_lacks,
    with_capacity,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def key(capacity_type: str, name: str, zone: str = "us-west-2a") -> OfferingKey:
    return OfferingKey(capacity_type, name, zone)


ON_DEMAND = TriedLaunch("default", key("on-demand", "c6g.large"), ("c6g.large", "m6g.large"))
SPOT = TriedLaunch("default", key("spot", "c6g.large"), ("c6g.large", "m6g.large"))


def test_only_offerings_that_the_launches_asked_for_count() -> None:
    refused = [
        key("on-demand", "c6g.large"),
        key("on-demand", "m6g.large"),
        key("on-demand", "r6g.large"),
        key("spot", "c6g.large"),
    ]
    text = "EC2 has no on-demand capacity for 2 offerings tried (c6g.large first)"
    assert what_ec2_lacks([ON_DEMAND], refused) == text
    assert what_ec2_lacks([], refused) == ""


def test_a_capacity_type_and_a_quota_that_are_used_up_are_named_as_such() -> None:
    refused = [key("spot", "", ""), OfferingKey.of_quota("on-demand", "Standard")]
    assert what_ec2_lacks([SPOT, ON_DEMAND], refused) == (
        "EC2 has no on-demand vCPU quota left and no spot capacity at all (c6g.large first)"
    )


def shortage(refused: int) -> PoolShortage:
    """EC2 refuses so many NodeClaims, one every 4 seconds."""
    pool_shortage: PoolShortage | None = None
    for number in range(refused):
        at = NOW + timedelta(seconds=4 * number)
        pool_shortage = refused_again(pool_shortage, [ON_DEMAND], [ON_DEMAND.cheapest], at)
    assert pool_shortage is not None
    return pool_shortage


def test_the_message_changes_only_when_the_number_doubles() -> None:
    """A message that changed with each NodeClaim would be a write each."""
    messages = [shortage(refused).message for refused in range(1, 8)]
    assert messages[0] == ""
    assert messages[1].endswith(
        "2 NodeClaims found no capacity between 2026-03-01 12:00:00 UTC and 2026-03-01 12:00:04 UTC; while pods "
        "wait for these, Tenon asks EC2 again 30s to 1m30s after each refusal"
    ), "it stays for minutes, so it names no time to come"
    assert messages[1] == messages[2]
    assert len(set(messages[3:])) == 1
    assert "4 NodeClaims" in messages[3]


def test_a_shortage_is_over_when_nothing_was_refused_for_a_while() -> None:
    pool_shortage = shortage(9)
    later = pool_shortage.last + LASTS + timedelta(seconds=1)
    assert not is_over(pool_shortage, later - timedelta(seconds=1))
    assert is_over(pool_shortage, later)
    assert refused_again(pool_shortage, [ON_DEMAND], [], later).refused == 1


def condition(
    shortage: PoolShortage | None, launched: datetime | None = None, before: list[Condition] | None = None
) -> tuple[str, str] | None:
    """Status and reason of the condition."""
    conditions = with_capacity(before or [], shortage, launched, now=NOW, observed_generation=2)
    condition = get_condition(conditions, CAPACITY_AVAILABLE)
    return None if condition is None else (condition.status, condition.reason)


def test_the_condition_is_false_in_a_shortage_and_true_after_the_next_launch() -> None:
    assert condition(None) is None
    assert condition(shortage(1)) is None
    assert condition(shortage(2)) == ("False", "InsufficientCapacity")
    scarce = with_capacity([], shortage(2), None, now=NOW, observed_generation=2)
    assert condition(None, NOW, scarce) == ("True", CAPACITY_AVAILABLE)


def test_without_a_launch_nothing_is_known_after_a_shortage() -> None:
    """Also for a process that has not seen the shortage."""
    scarce = with_capacity([], shortage(2), None, now=NOW, observed_generation=2)
    assert condition(None, NOW - timedelta(minutes=1), scarce) == ("Unknown", CAPACITY_AVAILABLE)
    unknown = with_capacity(scarce, None, None, now=NOW, observed_generation=2)
    assert condition(None, NOW, unknown) == ("True", CAPACITY_AVAILABLE)
