"""While EC2 refuses offerings, NodePools and pods without a type say what it refuses and until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.apis import labels
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.ec2.types.instance_types import without
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.taints import Toleration
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.refused_offerings import with_refused_offerings
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Pool
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.scheduling.builders import CATALOG, ZONES, asking, entry, need, pod, problem

UNTIL = datetime(2026, 3, 1, 12, 3, tzinfo=UTC)
AGAIN = "next attempt at 2026-03-01 12:03:00 UTC"
REQUIREMENTS = "template/spec/requirements"
SPOT_ONLY = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}]
Refused = Mapping[OfferingKey, datetime]


def every(capacity_type: str, *, size: str = "") -> Refused:
    names = [kind.name for kind in CATALOG if kind.name.endswith(size)]
    return {OfferingKey(capacity_type, name, zone): UNTIL for name in names for zone in ZONES}


def market(refused: Refused, **edits: Any) -> tuple[Pool, Sequence[InstanceType]]:
    """A NodePool as a plan has it while EC2 refuses this."""
    types = without(CATALOG, UnavailableOfferings(refused))
    return scheduling_pool(node_pool(edits=edits), types, {}, refused=refused), types


def reason(waiting: Pod, refused: Refused, **edits: Any) -> str:
    """Why the pod has no place."""
    pool, types = market(refused, **edits)
    plan = solve(problem([waiting], pool))
    completed = with_refused_offerings(plan, [waiting], [pool], {pool.name: types}, refused)
    return str(completed.unschedulable[waiting.key])


def test_a_nodepool_of_which_ec2_refuses_all_types_says_so() -> None:
    pool, _ = market(every("spot"), **{REQUIREMENTS: SPOT_ONLY})
    assert pool.why_lacking.startswith(f"EC2 refuses {len(every('spot'))} spot offerings (c5.16xlarge in 3 zones, ")
    assert pool.why_lacking.endswith(f" more): {AGAIN}"), "nothing but capacity is missing"
    assert reason(pod("a"), every("spot"), **{REQUIREMENTS: SPOT_ONLY}) == f"NodePool default: {pool.why_lacking}"


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (OfferingKey("spot", "", ""), "EC2 refuses all spot capacity"),
        (OfferingKey.of_quota("spot", "Standard"), "the account's spot vCPU quota Standard is used up"),
    ],
)
def test_a_quota_and_a_capacity_type_are_named_as_such(key: OfferingKey, sentence: str) -> None:
    pool, _ = market({key: UNTIL}, **{REQUIREMENTS: SPOT_ONLY})
    assert pool.why_lacking.startswith(f"{sentence}: {AGAIN}")


def test_a_nodepool_that_lacks_types_for_another_reason_names_no_refusal() -> None:
    terms = [{"key": labels.ARCH, "operator": "In", "values": ["riscv64"]}]
    pool, _ = market(every("spot"), **{REQUIREMENTS: terms})
    assert pool.why_lacking.startswith("no available instance type meets")


def test_a_pod_that_only_refused_types_could_hold_names_them() -> None:
    refused = {**every("spot", size=".24xlarge"), **every("on-demand", size=".24xlarge")}
    text = reason(pod("a", cpu="90"), refused)
    assert text.startswith("NodePool default: EC2 refuses ")
    assert ".24xlarge in 3 zones" in text
    assert f"{AGAIN}; without these: needs 90 CPU; the largest type it allows has " in text


def test_a_pod_that_no_refused_type_could_hold_hears_nothing_of_them() -> None:
    """Neither its size, its labels nor its taints would allow them."""
    refused = {**every("spot", size=".large"), **every("on-demand", size=".large")}
    assert "EC2" not in reason(pod("a", cpu="90000"), refused)
    assert "EC2" not in reason(asking("a", need(labels.ZONE, "In", "us-west-2z")), refused)
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert "EC2" not in reason(pod("a"), refused, **{"template/spec/taints": taints})
    tolerating = pod("a", cpu="90000", tolerations=(Toleration("gpu", "Exists"),))
    assert "EC2" not in reason(tolerating, refused, **{"template/spec/taints": taints})


def test_a_pod_that_a_nodepool_could_never_serve_names_what_keeps_it_off_not_what_ec2_refuses() -> None:
    """EC2 refuses all types of the NodePool, so that the plan has none to compare the pod with."""
    refused = every("spot")
    spot = {REQUIREMENTS: SPOT_ONLY}
    gpu = reason(pod("a", extra={"nvidia.com/gpu": "1"}), refused, **spot)
    assert gpu == "NodePool default: needs nvidia.com/gpu, which none of the types that it allows has"
    assert "EC2" not in reason(asking("a", need(labels.ZONE, "In", "us-west-2z")), refused, **spot)
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    tainted = reason(pod("a"), refused, **spot, **{"template/spec/taints": taints})
    assert tainted == "NodePool default: its taint gpu=yes:NoSchedule is not tolerated"
    full = reason(pod("a"), refused, **spot, limits={"cpu": "0"})
    assert full.startswith("NodePool default: its limit leaves no room for another node (cpu 0)")


def test_a_limit_of_a_nodepool_counts_before_what_ec2_refuses_of_it() -> None:
    refused = every("on-demand", size=".large")
    text = reason(pod("a"), refused, limits={"cpu": "1"})
    assert text.startswith("NodePool default: its limit leaves no room for another node (cpu 1)")


def test_of_two_nodepools_without_capacity_only_the_one_that_would_serve_a_pod_names_it() -> None:
    gpu_types = parse_catalog({"instanceTypes": [entry("g5.xlarge", 4, 16, 1.0, capacity={"nvidia.com/gpu": "1"})]})
    refused = {**every("spot"), **{OfferingKey("spot", "g5.xlarge", zone): UNTIL for zone in ZONES}}
    types = without([*CATALOG, *gpu_types], UnavailableOfferings(refused))
    pools = [
        scheduling_pool(
            node_pool(
                name,
                {
                    REQUIREMENTS: [
                        {"key": labels.INSTANCE_TYPE, "operator": operator, "values": ["g5.xlarge"]},
                        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
                    ]
                },
            ),
            types,
            {},
            refused=refused,
        )
        for name, operator in (("default", "NotIn"), ("gpu", "In"))
    ]
    waiting = pod("a", extra={"nvidia.com/gpu": "1"})
    by_pool = {pool.name: types for pool in pools}
    plan = solve(problem([waiting], *pools))
    text = str(with_refused_offerings(plan, [waiting], pools, by_pool, refused).unschedulable[waiting.key])
    assert text.startswith(
        "NodePool default: needs nvidia.com/gpu, which none of the types that it allows has; NodePool"
    )
    assert text.count("EC2 refuses") == 1
    assert f"NodePool gpu: EC2 refuses 3 spot offerings (g5.xlarge in 3 zones): {AGAIN}" in text


def test_a_pod_names_what_is_refused_of_the_capacity_type_that_it_asks_for() -> None:
    refused = {**every("spot"), **every("on-demand", size=".large")}
    text = reason(asking("a", need(labels.CAPACITY_TYPE, "In", "spot")), refused)
    assert f"EC2 refuses {len(every('spot'))} spot offerings" in text
    assert "on-demand offering" not in text
