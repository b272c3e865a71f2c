"""NodeSchedules, disruption and expiry do not work against each other.

No node is bought that the next looks remove although neither the pods nor what schedules ask for have changed since.
None is bought that leaves before it could boot because its NodePool is off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import looptime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tests.tenon.apis.case import NODEPOOL
from tests.worker.living_cluster import Event, History, LivingCluster
from worker.controllers.nodepool import schedules

BEGIN = datetime(2026, 6, 10, 8, tzinfo=UTC)
HOURS = 2
BUSY, IDLE = 30.0, 300.0
BOOTS = {"1s": 1, "2m": 120, "5m": 300, "15m": 900}
"""Seconds by what schedules state as boot time."""

floors = st.one_of(
    st.builds(lambda nodes: {"nodes": nodes}, st.integers(1, 3)),
    st.builds(lambda cpu: {"spare": {"cpu": str(cpu)}}, st.integers(1, 6)),
    st.builds(lambda nodes, cpu: {"nodes": nodes, "spare": {"cpu": str(cpu)}}, st.integers(1, 2), st.integers(1, 4)),
)
demands = st.one_of(
    st.just({"closed": True}),
    st.builds(lambda floor: {"floor": floor}, floors),
    st.builds(
        lambda floor, limits: {"floor": floor, "limits": limits},
        floors,
        st.sampled_from([{"cpu": "4"}, {"cpu": "12"}, {"nodes": "2"}]),
    ),
    st.builds(lambda limits: {"limits": limits}, st.sampled_from([{"cpu": "4"}, {"cpu": "12"}, {"nodes": "1"}])),
    st.builds(lambda replicas: {"replicas": replicas}, st.integers(0, 3)),
)


def entries(demand: st.SearchStrategy[dict[str, Any]], *durations: str) -> st.SearchStrategy[dict[str, Any]]:
    """Entries that begin up to an hour before the two hours of a test, or within them."""
    return st.builds(
        lambda hour, minute, duration, body: {"cron": f"{minute} {hour} * * *", "duration": duration, **body},
        st.integers(7, 9),
        st.sampled_from([0, 1, 4, 10, 30, 47]),
        st.sampled_from(durations),
        demand,
    )


specs = st.fixed_dictionaries(
    {
        "entries": st.one_of(
            st.tuples(
                entries(st.builds(lambda floor: {"floor": floor}, floors), "1h", "2h"),
                entries(st.just({"closed": True}), "10m", "30m", "1h"),
            ).map(list),
            st.lists(entries(demands, "3m", "10m", "30m", "1h", "2h"), min_size=1, max_size=4),
        ),
        "bootTime": st.sampled_from([*BOOTS]),
    }
)
pools = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["WhenEmpty", "WhenEmptyOrUnderutilized"]),
        "after": st.sampled_from(["0s", "30s", "5m", "Never"]),
        "expire": st.sampled_from(["Never", "Never", "17m", "1h"]),
        "budgets": st.sampled_from([[{"nodes": "100%"}], [{"nodes": "1"}], [{"nodes": "50%"}], [{"nodes": "0"}]]),
        "limits": st.sampled_from([{}, {}, {"nodes": "3"}, {"cpu": "16"}]),
        "replicas": st.sampled_from([None, None, None, None, 1, 3]),
        "second": st.booleans(),
        "onDemand": st.booleans(),
    }
)
arrivals = st.lists(
    st.tuples(st.integers(0, HOURS * 60 - 30), st.integers(1, 60), st.sampled_from([200, 900, 1500, 3000])), max_size=8
)
"""Pods: the minute in which each comes, how many minutes it stays, and its CPU requests."""


def pool_spec(drawn: dict[str, Any]) -> dict[str, Any]:
    template_spec = {**NODEPOOL["spec"]["template"]["spec"], "expireAfter": drawn["expire"]}
    if drawn["onDemand"]:  # consolidation replaces only such nodes by cheaper ones
        only = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
        template_spec["requirements"] = [*template_spec.get("requirements", ()), only]
    disruption = {
        "consolidationPolicy": drawn["policy"],
        "consolidateAfter": drawn["after"],
        "budgets": drawn["budgets"],
    }
    limits = {"nodes": "5"} if drawn["replicas"] is not None else drawn["limits"]
    result: dict[str, Any] = {"template": {"spec": template_spec}, "disruption": disruption, "limits": limits}
    return result if drawn["replicas"] is None else {**result, "replicas": drawn["replicas"]}


async def lived(
    schedule_specs: list[dict[str, Any]], drawn: dict[str, Any], pods: list[tuple[int, int, int]]
) -> LivingCluster:
    cluster = LivingCluster(BEGIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "utc_now", lambda: cluster.cache.instant)
        patch.setattr(asyncio, "to_thread", _at_once)
        cluster.put_pool(**pool_spec(drawn))
        if drawn["second"]:  # no schedule names it, and the pods may be there too
            cluster.put_pool("other", **pool_spec({**drawn, "replicas": None, "limits": {}}))
        for number, spec in enumerate(schedule_specs):
            cluster.put_schedule(*spec["entries"], name=f"schedule-{number}", bootTime=spec["bootTime"], timeZone="UTC")
        events = sorted(_events(pods), key=lambda event: event.at)
        end = BEGIN + timedelta(hours=HOURS)
        await cluster.look()
        while cluster.cache.instant < end:
            await cluster.pass_time(_pause(cluster, events[0].at if events else end), events)
    return cluster


def _events(pods: list[tuple[int, int, int]]) -> Iterator[Event]:
    for number, (minute, stays, millis) in enumerate(pods):
        comes = BEGIN + timedelta(minutes=minute)
        yield Event(comes, partial(LivingCluster.add_pod, name=f"p{number}", millis=millis))
        yield Event(comes + timedelta(minutes=stays), partial(LivingCluster.remove_pod, name=f"p{number}"))


def _pause(cluster: LivingCluster, event: datetime) -> float:
    """Seconds until something may happen."""
    if cluster.is_busy:
        return BUSY
    now = cluster.cache.instant
    change = cluster.view.schedules.now().next_change
    instants = [event, *([change] if change is not None else [])]
    return max(1.0, min([IDLE, *((instant - now).total_seconds() for instant in instants)]))


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


@settings(max_examples=75)
@given(st.lists(specs, min_size=1, max_size=2), pools, arrivals)
def test_no_node_is_bought_that_disruption_removes_without_a_change(
    schedule_specs: list[dict[str, Any]], drawn: dict[str, Any], pods: list[tuple[int, int, int]]
) -> None:
    history = history_of(schedule_specs, drawn, pods)
    # Between two looks of the model, half a minute passes.
    boot = max(timedelta(seconds=BOOTS[spec["bootTime"]]) for spec in schedule_specs) - timedelta(seconds=2 * BUSY)
    for removal in history.removals:
        bought = history.bought[removal.claim]
        if removal.is_off:
            assert removal.at - bought >= boot, f"{removal} was bought at {bought}"
        elif removal.reason != Reason.EXPIRED:
            changes = [change for at, change in history.changes if bought < at <= removal.at]
            assert changes, f"{removal} was bought at {bought}"


def test_consolidation_expiry_and_a_time_off_all_remove_nodes_of_the_model() -> None:
    """Without this, the test above could hold because nothing happens in its model."""
    entries_of_floor_and_off = [
        {"cron": "0 7 * * *", "duration": "2h", "floor": {"nodes": 1}},
        {"cron": "0 9 * * *", "duration": "30m", "closed": True},
    ]
    drawn: dict[str, Any] = {
        "policy": "WhenEmptyOrUnderutilized",
        "after": "0s",
        "expire": "29m",
        "budgets": [{"nodes": "100%"}],
        "limits": {},
        "replicas": None,
        "second": False,
        "onDemand": False,
    }
    pods = [(0, 20, 3000), (0, 110, 200), (0, 110, 200), (3, 40, 3000), (3, 110, 900)]
    history = history_of([{"entries": entries_of_floor_and_off, "bootTime": "2m"}], drawn, pods)
    reasons = {removal.reason for removal in history.removals}
    assert reasons == {Reason.EXPIRED, Reason.UNDERUTILIZED, Reason.SCHEDULED_OFF, Reason.EMPTY}


def history_of(
    schedule_specs: list[dict[str, Any]], drawn: dict[str, Any], pods: list[tuple[int, int, int]]
) -> History:
    loop = looptime.new_event_loop(noop_cycles=1)  # nothing arrives from outside
    try:
        cluster: LivingCluster = loop.run_until_complete(lived(schedule_specs, drawn, pods))
    finally:
        loop.close()
    return cluster.history
