"""NodeSchedules in ``tenon simulate``: what holds at the time of the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulate.running import POOL, deployment, simulate
from tests.simulate.shared_cluster import SHARED

SCHEDULE = """
apiVersion: tenon.sh/v1alpha1
kind: NodeSchedule
metadata: {name: hours}
spec:
  timeZone: Europe/Berlin
  nodePools: [default]
  bootTime: 5m
  entries:
  - {name: nights, from: "19:00", to: "09:00", closed: true}
  - {name: days, from: "09:00", to: "19:00", floor: {nodes: 2}, limits: {cpu: "64"}}
"""
FREEZE = """
apiVersion: tenon.sh/v1alpha1
kind: DisruptionFreeze
metadata: {name: release}
spec: {reason: release}
"""
BUFFER = """
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: default}
spec: {podTemplateRef: {name: small}, replicas: 1}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: small, namespace: default}
template: {spec: {containers: [{name: main, image: pause, resources: {requests: {cpu: "1"}}}]}}
---
apiVersion: tenon.sh/v1alpha1
kind: NodeSchedule
metadata: {name: headroom}
spec:
  timeZone: UTC
  entries: [{from: "09:00", to: "19:00", headroom: [{name: spare, replicas: 40}]}]
"""


def planned(folder: Path, now: str, *texts: str) -> dict[str, Any]:
    return simulate(folder, "\n---\n".join((POOL, *texts)), "--now", now).plan


def test_a_nodepool_that_is_off_gets_no_nodes_and_its_pods_hear_why(tmp_path: Path) -> None:
    plan = planned(tmp_path, "2026-06-10T20:00:00Z", deployment(replicas=1), SCHEDULE)
    assert plan["nodeClaims"] == []
    (entry,) = plan["unschedulable"]
    assert (
        "NodePool default: it is off until Thu 2026-06-11 at 08:55 Europe/Berlin by NodeSchedule hours/nights"
        in (entry["reason"])
    )


def test_a_floor_is_bought_without_pods(tmp_path: Path) -> None:
    assert len(planned(tmp_path, "2026-06-10T10:00:00Z", SCHEDULE)["nodeClaims"]) == 2


def test_the_limits_of_a_schedule_hold(tmp_path: Path) -> None:
    plan = planned(tmp_path, "2026-06-10T10:00:00Z", deployment(replicas=100, cpu="1"), SCHEDULE)
    placed = sum(len(claim["pods"]) for claim in plan["nodeClaims"])
    assert 0 < placed <= 64
    assert len(planned(tmp_path, "2026-06-10T10:00:00Z", deployment(replicas=100, cpu="1"))["unschedulable"]) == 0


def test_the_nodes_of_a_nodepool_that_is_off_leave_unless_it_is_frozen(tmp_path: Path) -> None:
    """Also those with pods that consolidation would leave alone."""
    night = ("--disruption", "--now", "2026-06-10T20:00:00Z")
    plan = simulate(tmp_path, "\n---\n".join((SHARED, SCHEDULE)), *night).plan
    assert [(entry["reason"], entry["candidates"]) for entry in plan["disruption"]] == [
        ("scheduled_off", ["n1"]),
        ("scheduled_off", ["n2"]),
    ]
    assert "off until Thu 2026-06-11 at 08:55 Europe/Berlin" in plan["disruption"][0]["explanation"][0]
    assert plan["staying"] == []
    assert plan["totals"]["nodesAfterDisruption"] == 0
    frozen = simulate(tmp_path, "\n---\n".join((SHARED, SCHEDULE, FREEZE)), *night).plan
    assert (frozen["disruption"], len(frozen["staying"])) == ([], 2)


@pytest.mark.parametrize(("now", "pods"), [("2026-06-10T08:00:00Z", 1), ("2026-06-10T12:00:00Z", 40)])
def test_headroom_sets_the_replicas_of_a_buffer(tmp_path: Path, now: str, pods: int) -> None:
    plan = planned(tmp_path, now, BUFFER)
    assert sum(len(claim["pods"]) for claim in plan["nodeClaims"]) == pods


def test_manifests_without_a_time_need_one(tmp_path: Path) -> None:
    answer = simulate(tmp_path, "\n---\n".join((POOL, deployment(replicas=1), SCHEDULE)))
    assert len(answer.plan["nodeClaims"]) == 1
    assert "NodeSchedule hours is left out, because the input has no time: state one with --now" in answer.err


def test_a_schedule_with_a_fault_is_refused(tmp_path: Path) -> None:
    answer = simulate(tmp_path, "\n---\n".join((POOL, SCHEDULE.replace("Europe/Berlin", "Berlin"))))
    assert any("'Berlin' is not an IANA time zone" in fault for fault in answer.faults)


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_time_without_days_around_it_is_refused(tmp_path: Path, now: str) -> None:
    answer = simulate(tmp_path, "\n---\n".join((SHARED, SCHEDULE)), "--disruption", "--now", now)
    sentence = f"--now: {now} is not in the years 2 to 9998: state another time\n"
    assert (answer.status, answer.out, answer.err) == (2, "", sentence)


@pytest.mark.parametrize("now", ["9998-12-31T23:59:59Z", "0002-01-01T00:00:00Z"])
def test_other_times_have_a_plan(tmp_path: Path, now: str) -> None:
    text = "\n---\n".join((SHARED, deployment(), SCHEDULE, FREEZE))
    assert simulate(tmp_path, text, "--disruption", "--now", now).status == 0
