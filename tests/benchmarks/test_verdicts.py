"""The benchmarks' judgements: what was bought twice or not at all, what it cost, what was planned."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.history.v1 import HistoryEvent

from benchmarks.bill import bill, pending, price_of
from benchmarks.pending import judge
from benchmarks.plans import planned
from tenon.apis import labels
from tenon.messages.base import ActivityName
from tenon.messages.provisioning import PlanResult
from tests.tenon.scheduling.builders import pool as make_pool

Object = dict[str, Any]


def claim(name: str, *uids: str) -> Object:
    text = ",".join(f"default/{uid}={uid}" for uid in uids)
    return {
        "metadata": {"name": name, "annotations": {labels.PLANNED_PODS: text}},
        "status": {"providerID": f"aws:///us-west-2a/i-{name}"},
    }


def instance(name: str, state: str = "running") -> Object:
    """The instance that the NodeClaim of this name names."""
    return {"id": f"i-{name}", "state": state}


def test_a_load_that_is_served_once_is_sound() -> None:
    claims = [claim("one", "a", "b"), claim("two", "c")]
    manifest = instance("earlier", "terminated")
    assert judge("abc", claims, [instance("one"), instance("two"), manifest]).sound


@pytest.mark.parametrize(
    ("claims", "instances", "fault"),
    [
        ([claim("one", "a", "b")], ["one"], "unserved"),
        ([claim("one", "a", "b", "c"), claim("two", "c")], ["one", "two"], "twice"),
        ([claim("one", "a", "b"), claim("two", "c")], ["one"], "without_instance"),
        ([claim("one", "a", "b", "c")], ["one", "lost"], "extra_instances"),
    ],
)
def test_each_fault_is_reported(claims: list[Object], instances: list[str], fault: str) -> None:
    verdict = judge("abc", claims, [instance(name) for name in instances])
    assert not verdict.sound
    assert getattr(verdict, fault) == 1


def pod(name: str) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": "n", "containers": [container]},
    }


def test_the_bill_compares_what_was_launched_with_a_repack() -> None:
    pool = make_pool()
    kind = pool.instance_types[-1]
    offering = kind.offerings[0]
    bought = {
        "metadata": {
            "labels": {
                labels.INSTANCE_TYPE: kind.name,
                labels.ZONE: offering.zone,
                labels.CAPACITY_TYPE: offering.capacity_type,
            }
        }
    }
    waiting: dict[str, Any] = {"metadata": {"labels": {labels.INSTANCE_TYPE: kind.name}}}
    assert price_of([bought, waiting, bought], pool.instance_types) == pytest.approx(2 * offering.price)
    result = bill([bought], [pod("a"), pod("b")], pool)
    assert result.repacked_nodes == 1
    assert result.bound <= result.repacked_price <= offering.price
    assert result.ratio == pytest.approx(offering.price / result.repacked_price)


def test_placed_pods_are_repacked_as_if_they_waited() -> None:
    (again,) = pending([pod("a")])
    assert again.node_name == ""


def stamp(at: float) -> Timestamp:
    return Timestamp(seconds=int(at), nanos=round((at % 1) * 1e9))


def test_plans_are_read_from_the_provisioners_history() -> None:
    events = [HistoryEvent(event_id=n, event_time=stamp(n)) for n in range(1, 7)]
    for number, name in ((0, ActivityName.AWAIT_BATCH), (3, ActivityName.PLAN)):
        events[number].activity_task_scheduled_event_attributes.activity_type.name = name.value
        events[number + 1].activity_task_started_event_attributes.scheduled_event_id = number + 1
        done = events[number + 2].activity_task_completed_event_attributes
        done.scheduled_event_id = number + 1
        done.result.payloads.add(data=PlanResult(batch=7, pods=3).model_dump_json().encode())
    (output,) = planned(events)
    assert (output.result.batch, output.result.pods, output.seconds) == (7, 3, 1.0)
