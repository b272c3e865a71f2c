"""Which nodes are unhealthy, since when, and when too many are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.disruption.repair.breaker import Breaker
from tenon.disruption.repair.legacy import fault_of
from tenon.kube.decode import decode_node
from tenon.kube.records import NodeRecord
from tests.worker.cache.objects import metadata

SINCE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def stated(type_: str, status: str, since: datetime | None = SINCE) -> dict[str, Any]:
    time = {"lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ")} if since else {}
    return {"type": type_, "status": status, **time}


def node(*conditions: dict[str, Any]) -> NodeRecord:
    body = {"metadata": metadata("n"), "spec": {}, "status": {"conditions": list(conditions)}}
    return decode_node(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("type_", "status", "minutes"),
    [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
    ],
)
def test_sch104_aws168_a_condition_is_tolerated_for_so_long(type_: str, status: str, minutes: int) -> None:
    """The policies of Karpenter's AWS provider."""
    fault = fault_of(node(stated("Ready", "True"), stated(type_, status)).unhealthy)
    assert fault is not None
    assert (fault.condition.type, fault.condition.status) == (type_, status)
    assert fault.due == SINCE + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    "condition",
    [
        stated("Ready", "True"),
        stated("StorageReady", "True"),
        stated("StorageReady", "Unknown"),
        stated("KernelReady", "Unknown"),
        stated("DiskPressure", "True"),
        stated("MemoryPressure", "False"),
        stated("MyOwnReady", "False"),
    ],
)
def test_sch104_other_conditions_are_no_fault(condition: dict[str, Any]) -> None:
    assert fault_of(node(condition).unhealthy) is None


def test_sch104_the_fault_that_is_due_first_counts() -> None:
    later = SINCE + timedelta(minutes=15)
    node_record = node(stated("Ready", "Unknown"), stated("AcceleratedHardwareReady", "False", later))
    fault = fault_of(node_record.unhealthy)
    assert fault is not None
    assert (fault.condition.type, fault.due) == ("AcceleratedHardwareReady", later + timedelta(minutes=10))


def test_a_condition_that_does_not_say_since_when_is_never_due() -> None:
    fault = fault_of(node(stated("Ready", "False", None)).unhealthy)
    assert fault is not None
    assert fault.due is None


def test_the_record_of_a_healthy_node_stays_equal_and_keeps_nothing() -> None:
    """Heartbeats are no changes, and thousands of nodes keep no conditions that all healthy ones have."""
    usual = [stated("DiskPressure", "False"), stated("KernelDeadlock", "False"), stated("StorageReady", "True")]
    ready = node(stated("Ready", "True"), *usual)
    assert ready.unhealthy == ()
    assert ready == node(stated("Ready", "True", SINCE + timedelta(hours=1)), *usual)


def test_the_record_of_a_node_keeps_each_condition_that_a_policy_may_name() -> None:
    """Also conditions that should be False, and those of agents that nobody knows."""
    unusual = [stated("DiskPressure", "True"), stated("KernelDeadlock", "True"), stated("FanSpins", "False")]
    conditions = node(stated("Ready", "True"), *unusual).unhealthy
    assert [(condition.type, condition.status) for condition in conditions] == [
        ("DiskPressure", "True"),
        ("KernelDeadlock", "True"),
        ("FanSpins", "False"),
    ]


@pytest.mark.parametrize(
    ("unhealthy", "total", "blocked"),
    [(1, 1, False), (1, 5, False), (2, 5, True), (2, 6, False), (3, 6, True), (20, 100, False), (21, 100, True)],
)
def test_sch104_more_than_a_fifth_rounded_up_is_too_many(unhealthy: int, total: int, blocked: bool) -> None:
    breaker = Breaker(("pool", number < unhealthy) for number in range(total))
    why = "More than 20% of the nodes of NodePool pool are unhealthy" if blocked else ""
    assert breaker.why_blocked("pool") == why
    assert bool(breaker.why_blocked("")) is blocked, "for a stand-alone NodeClaim every node counts"


def test_sch104_each_nodepool_is_counted_by_itself() -> None:
    nodes = [("sick", True), ("sick", True), ("well", True), ("well", False), ("", False), ("", False), ("", False)]
    breaker = Breaker(nodes)
    assert [pool for pool in ("sick", "well", "", "new") if breaker.why_blocked(pool)] == ["sick", ""]
