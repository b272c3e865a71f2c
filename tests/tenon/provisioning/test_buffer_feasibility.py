"""Which CapacityBuffers will never have room (N15-303)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.provisioning.buffer_feasibility import infeasible, one_pod_of_each
from tenon.scheduling.model import Offering, Pool
from tests.tenon.scheduling.builders import ZONES, asking, catalog, entry, need, pod, pool, problem

SMALL = entry("m5.large", 2, 8, 0.1)


def of_buffer(pod_model: Pod, name: str = "spare") -> Pod:
    return replace(pod_model, buffer=f"default/{name}")


def feasible(pod_model: Pod, *pools: Pool) -> bool:
    problems = infeasible(problem([], *pools), [of_buffer(pod_model)])
    assert set(problems) <= {"default/spare"}
    assert all(problems.values()), "a reason is given"
    return not problems


@pytest.mark.parametrize(
    ("pod_model", "holds"),
    [
        (pod(), True),
        (pod(cpu="3"), False),
        (asking("p", need(labels.ZONE, "In", ZONES[0])), True),
        (asking("p", need(labels.ZONE, "In", "nowhere")), False),
    ],
    ids=["fits", "too large", "a zone that is offered", "no such zone"],
)
def test_n15_303_a_pod_that_no_type_could_hold_is_infeasible(pod_model: Pod, holds: bool) -> None:
    assert feasible(pod_model, pool(types=catalog(SMALL))) is holds


def test_n15_303_limits_may_be_raised_and_reservations_may_have_places_again() -> None:
    assert feasible(pod(), pool(types=catalog(SMALL), limits={"nodes": 0}))
    (kind,) = catalog(SMALL)
    full = Offering(ZONES[0], labels.RESERVED, 0.0, reservation_id="cr-1", reservation_capacity=0)
    reserved = need(labels.CAPACITY_TYPE, "In", labels.RESERVED)
    assert feasible(pod(), pool("default", reserved, types=[replace(kind, offerings=(full,))]))


def test_n15_303_without_a_nodepool_no_buffer_has_room() -> None:
    assert not feasible(pod())


def test_n15_303_one_pod_stands_for_each_buffer() -> None:
    pods = [of_buffer(pod(f"p{number}"), name) for number in range(3) for name in ("b", "a", "c")]
    assert [pod_model.buffer for pod_model in one_pod_of_each(pods, ["default/c", "default/a", "default/gone"])] == [
        "default/a",
        "default/c",
    ]
