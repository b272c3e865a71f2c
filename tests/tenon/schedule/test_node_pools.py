"""NodePools as NodeSchedules have them: limits, replicas, and whether they launch anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.nodeschedule import why_closed
from tenon.provisioning.readiness import FRESH, why_unusable
from tenon.provisioning.static_capacity import ReplicaBalance, balance
from tenon.provisioning.warm_nodes import Refill, WarmNode, refill
from tenon.schedule.desired import desired
from tenon.schedule.node_pools import scheduled_pool
from tests.activities.provisioning.fake_view import node_class, node_pool
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL, a_schedule
from tests.worker.cache.objects import claim

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-06-10T{text}").replace(tzinfo=BERLIN).astimezone(UTC)


def scheduled(clock: str, *entries: dict[str, Any], edits: dict[str, Any] | None = None, **metadata: Any) -> NodePool:
    return scheduled_pool(node_pool(POOL, edits, **metadata), desired([a_schedule(*entries)], at(clock)))


def test_a_nodepool_that_no_schedule_names_stays_as_it_is() -> None:
    pool = node_pool("other")
    assert scheduled_pool(pool, desired([a_schedule(NIGHTS)], at("23:00"))) is pool


def test_of_both_limits_the_smaller_ones_hold() -> None:
    entry = HOURS | {"floor": None, "limits": {"cpu": "8", "memory": "64Gi"}}
    own_limits = {"limits": {"cpu": "4", "memory": "128Gi", "nodes": 3}}
    limits = scheduled("12:00", entry, edits=own_limits).spec.limits
    assert limits == {"cpu": "4", "memory": "64Gi", "nodes": "3"}


@pytest.mark.parametrize(
    ("clock", "sentence"),
    [
        ("19:00", "it is off until Thu 2026-06-11 at 08:55 Europe/Berlin by NodeSchedule hours/nights"),
        (
            "18:57",
            "it is off from Wed 2026-06-10 at 19:00 Europe/Berlin on by a NodeSchedule, and a new node would leave "
            "before it is of use; it opens on Thu 2026-06-11 at 08:55 Europe/Berlin",
        ),
        ("08:55", ""),
        ("18:54", ""),
    ],
)
def test_a_closed_nodepool_buys_nothing_for_pods_and_says_until_when(clock: str, sentence: str) -> None:
    pool = scheduled(clock, NIGHTS)
    assert why_unusable(pool, lambda _: node_class(), FRESH) == sentence


def test_a_nodepool_that_is_always_off_names_no_time() -> None:
    pool = scheduled("12:00", {"from": "00:00", "to": "00:00", "closed": True})
    assert why_closed(pool.metadata.annotations) == "it is off for more than a week by NodeSchedule hours/0"


def test_the_mark_that_a_user_wrote_means_nothing() -> None:
    pool = scheduled("12:00", NIGHTS, annotations={labels.CLOSED_BY_SCHEDULE: "never"})
    assert why_closed(pool.metadata.annotations) == ""
    other = node_pool("other", annotations={labels.CLOSED_BY_SCHEDULE: "never", "team": "a"})
    assert scheduled_pool(other, desired([], at("12:00"))).metadata.annotations == {"team": "a"}


@pytest.mark.parametrize(("clock", "replicas"), [("12:00", 5), ("20:00", 0)])
def test_a_static_nodepool_has_the_replicas_of_the_schedule_and_none_while_it_is_off(clock: str, replicas: int) -> None:
    entry = HOURS | {"floor": None, "replicas": 5, "limits": {"cpu": "1"}}
    pool = scheduled(clock, entry, NIGHTS, edits={"replicas": 2})
    assert (pool.spec.replicas, pool.spec.limits) == (replicas, {}), "limits of a static NodePool only bound nodes"


@pytest.mark.parametrize(("own", "early", "at_nine"), [(5, 5, 3), (2, 3, 3)])
def test_a_static_nodepool_gets_replicas_early_and_loses_none_before_the_time(
    own: int, early: int, at_nine: int
) -> None:
    entry = HOURS | {"floor": None, "replicas": 3}
    assert scheduled("08:54", entry, edits={"replicas": own}).spec.replicas == own
    assert scheduled("08:55", entry, edits={"replicas": own}).spec.replicas == early
    assert scheduled("09:00", entry, edits={"replicas": own}).spec.replicas == at_nine


@pytest.mark.parametrize("clock", ["18:57", "19:00"])
def test_the_replicas_of_a_static_nodepool_take_and_buy_no_node_while_it_is_closed(clock: str) -> None:
    """Which nodes leave then, freezes and requests to keep nodes decide too: `off_pool`."""
    pool = scheduled(clock, HOURS | {"floor": None, "replicas": 5}, NIGHTS, edits={"replicas": 2})
    assert balance(pool, 1, 0) == ReplicaBalance()
    assert balance(pool, 6, 0) == ReplicaBalance()
    assert balance(scheduled("12:00", NIGHTS, edits={"replicas": 2}), 6, 0).surplus == 4


@pytest.mark.parametrize("clock", ["18:57", "19:00"])
def test_the_number_of_warm_nodes_takes_and_buys_none_while_the_nodepool_is_closed(clock: str) -> None:
    annotations = {labels.WARM: "2"}
    warm = [WarmNode(claim(name, meta={"annotations": {labels.WARM: "stopped"}})) for name in ("a", "b", "c")]
    assert refill(scheduled("12:00", NIGHTS, annotations=annotations), []).missing == 2
    assert refill(scheduled(clock, NIGHTS, annotations=annotations), []) == Refill()
    assert refill(scheduled(clock, NIGHTS, annotations=annotations), warm[:2]) == Refill()
    fewer = refill(scheduled(clock, NIGHTS, annotations=annotations), warm)
    assert [item.name for item in fewer.delete] == ["a"], "a user who lowers the number gets what he asks for"
