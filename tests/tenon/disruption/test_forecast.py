"""At which times the forecast of consolidation looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.disruption.decision import Candidate, Command
from tenon.disruption.forecast import MAX_TIMES, next_consolidation
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.blockers import is_free
from tenon.disruption.situation import Situation

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NODE = ManagedNode("a", "u", "default", True, True, False, True, NOON)
POLICIES = {"default": PoolPolicy("default", timedelta(minutes=10))}


def situation(*minutes: int) -> Situation:
    """Empty nodes, of which each has been empty for so many minutes."""
    nodes = [
        replace(NODE, claim=f"n{place}", quiet_since=NOON - timedelta(minutes=minute))
        for place, minute in enumerate(minutes)
    ]
    return Situation(nodes, POLICIES, NOON)


def test_the_forecast_looks_at_each_end_of_a_wait_until_consolidation_would_act() -> None:
    empty = Command("emptiness", Reason.EMPTY, "empty", (Candidate(NODE, NOON),))
    drift = replace(empty, reason=Reason.DRIFTED)

    def decided(then: Situation) -> tuple[Command, ...]:
        return (drift, empty) if then.now >= NOON + timedelta(minutes=3) else (drift,)

    forecast_times = next_consolidation(situation(1, 5, 7, 9, 7, 20), decided)
    assert [(item.at - NOON, item.commands) for item in forecast_times] == [
        (timedelta(minutes=1), ()),
        (timedelta(minutes=3), (empty,)),
    ], "a node that is free already has no wait"


def test_the_forecast_looks_when_the_duration_in_do_not_disrupt_of_a_pod_ends() -> None:
    """A pod without an end keeps its node for ever."""
    empty = Command("emptiness", Reason.EMPTY, "empty", (Candidate(NODE, NOON),))
    quiet = replace(NODE, quiet_since=NOON - timedelta(hours=1), held_by="pod shop/batch: annotation protects it")

    def decided(then: Situation) -> tuple[Command, ...]:
        return (empty,) if is_free(then.nodes[0], then, Reason.EMPTY) else ()

    ends = NOON + timedelta(minutes=30)
    (item,) = next_consolidation(Situation([replace(quiet, held_until=ends)], POLICIES, NOON), decided)
    assert (item.at, item.commands) == (ends, (empty,))
    assert next_consolidation(Situation([quiet], POLICIES, NOON), decided) == []


def test_the_forecast_of_many_waits_is_bounded_and_ends_with_the_last_of_them() -> None:
    """Each time is a whole search, and at the last one nothing waits any more."""
    forecast_times = next_consolidation(situation(*range(10)), lambda _: ())
    assert len(forecast_times) == MAX_TIMES
    assert forecast_times[-1].at == NOON + timedelta(minutes=10)
    assert [item.is_latest for item in forecast_times] == [False, False, False, True], "times before it were left out"
    assert not any(item.is_latest for item in next_consolidation(situation(*range(MAX_TIMES)), lambda _: ()))
