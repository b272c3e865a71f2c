"""How long pods take to be decided, bound and ready (MET-23 to MET-25)."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from tenon.kube.records import PodRecord
from tests.worker.cache.objects import UNSCHEDULABLE, pod
from worker.controllers.observability.pod_times import PodTimes

CREATED = 1767225600.0
BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:50Z"}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:20Z"}


class World:
    """The pod that an API server shows, and the time."""

    def __init__(self) -> None:
        self.now = CREATED + 10
        self.times = PodTimes(lambda: self.now)
        self.before: PodRecord | None = None

    def shows(self, at: float, phase: str, *conditions: dict[str, Any], **spec: Any) -> None:
        self.now = CREATED + at
        record = pod(status={"phase": phase, "conditions": list(conditions)}, **spec)
        self.times.changed(record.key, self.before, record)
        self.before = record

    def decided(self, at: float, *, placed: bool = True) -> None:
        self.now = CREATED + at
        self.times.decided(["uid-p"], {"uid-p"} if placed else set())

    def gauges(self, at: float) -> dict[str, float]:
        """The gauges of the pod, without the parts of their names that all have."""
        families = text_string_to_metric_families("".join(self.times.texts(CREATED + at)))
        return {
            sample.name.removeprefix("karpenter_pods_"): sample.value
            for family in families
            for sample in family.samples
            if sample.labels.get("name") == "p"
        }

    def startups(self) -> dict[str, float]:
        """The summary, by quantile or by the last part of the name."""
        (family,) = text_string_to_metric_families(self.times.startups.text())
        return {s.labels.get("quantile") or s.name.rpartition("_")[2]: s.value for s in family.samples}


def sums(name: str, **labels: str) -> tuple[float, float]:
    """The sum and the number of a histogram's values."""
    parts = (REGISTRY.get_sample_value(f"karpenter_pods_{name}_{part}", labels) or 0.0 for part in ("sum", "count"))
    return next(parts), next(parts)


@pytest.fixture
def world() -> World:
    return World()


def test_met25_a_pod_that_waits_says_since_when(world: World) -> None:
    world.shows(10, "Pending", UNSCHEDULABLE)
    assert world.gauges(30) == {
        "unstarted_time_seconds": 30.0,
        "unbound_time_seconds": 30.0,
        "provisioning_scheduling_undecided_time_seconds": 20.0,
    }
    world.decided(35)
    assert world.gauges(40) == {
        "unstarted_time_seconds": 40.0,
        "unbound_time_seconds": 40.0,
        "provisioning_unstarted_time_seconds": 5.0,
        "provisioning_unbound_time_seconds": 5.0,
    }
    world.shows(50, "Pending", BOUND, nodeName="n")
    assert world.gauges(60) == {"unstarted_time_seconds": 60.0, "provisioning_unstarted_time_seconds": 25.0}
    world.shows(80, "Running", BOUND, READY, nodeName="n")
    assert world.gauges(90) == {}


def test_n15_527_a_pod_that_got_a_node_is_not_undecided(world: World) -> None:
    world.shows(10, "Pending", UNSCHEDULABLE)
    world.shows(50, "Pending", BOUND, nodeName="n")
    assert "provisioning_scheduling_undecided_time_seconds" not in world.gauges(60)


def test_met24_times_of_a_pod_are_counted_once(world: World) -> None:
    names = ("scheduling_decision_duration_seconds", "provisioning_startup_duration_seconds")
    bound_names = ("bound_duration_seconds", "provisioning_bound_duration_seconds")
    before = [sums(name) for name in names] + [sums(name, dynamic_resources="false") for name in bound_names]
    world.shows(10, "Pending", UNSCHEDULABLE)
    world.decided(20, placed=False)
    world.decided(35)
    world.shows(50, "Pending", BOUND, nodeName="n")
    world.shows(80, "Running", BOUND, READY, nodeName="n")
    world.shows(90, "Running", BOUND, nodeName="n")
    world.shows(95, "Running", BOUND, READY, nodeName="n")
    after = [sums(name) for name in names] + [sums(name, dynamic_resources="false") for name in bound_names]
    differences = [(now[0] - then[0], now[1] - then[1]) for now, then in zip(after, before, strict=True)]
    assert differences == [(10.0, 1.0), (45.0, 1.0), (50.0, 1.0), (15.0, 1.0)]


def test_n15_526_pods_with_resource_claims_are_told_apart(world: World) -> None:
    before = sums("bound_duration_seconds", dynamic_resources="true")
    world.shows(10, "Pending", resourceClaims=[{"name": "gpu"}])
    world.shows(50, "Pending", BOUND, nodeName="n", resourceClaims=[{"name": "gpu"}])
    after = sums("bound_duration_seconds", dynamic_resources="true")
    assert (after[0] - before[0], after[1] - before[1]) == (50.0, 1.0)


def test_met23_startups_have_quantiles_of_the_last_minutes(world: World) -> None:
    world.shows(10, "Pending")
    world.shows(80, "Running", BOUND, READY, nodeName="n")
    assert world.startups() == {"0": 80.0, "0.5": 80.0, "0.9": 80.0, "0.99": 80.0, "1": 80.0, "sum": 80.0, "count": 1.0}
    world.now += 601
    later = world.startups()
    assert later["0.5"] != later["0.5"], "NaN: no pod started lately"
    assert (later["sum"], later["count"]) == (80.0, 1.0)


def test_met23_pods_that_ended_or_are_gone_did_not_start(world: World) -> None:
    world.shows(10, "Pending")
    world.shows(20, "Failed")
    assert world.gauges(30) == {}
    world.shows(40, "Pending")
    world.times.changed("ns/p", world.before, None)
    assert world.gauges(50) == {}
    world.before = None
    world.shows(80, "Running", BOUND, READY, nodeName="n")
    assert world.startups() == {}
