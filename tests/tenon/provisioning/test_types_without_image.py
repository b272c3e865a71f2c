"""Where no image of an EC2NodeClass boots what a pod could use, the reasons of NodePools and pods say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.ec2nodeclass import AMI
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.ec2.types.bootable_types import without_images
from tenon.ec2.types.instance_types import without
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace, ObstacleKind
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.refused_offerings import with_refused_offerings
from tenon.provisioning.static_node import static_node
from tenon.provisioning.types_without_image import with_types_without_image
from tenon.scheduling.empty_node import NoEmptyNodeError
from tenon.scheduling.engine import solve
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, Pool
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.scheduling.builders import CATALOG, ZONES, asking, catalog, entry, need, pod, problem

REQUIREMENTS = "template/spec/requirements"
UNTIL = datetime(2026, 3, 1, 12, 3, tzinfo=UTC)
NO_ARM = "no image of EC2NodeClass default boots arm64: select one that does in its amiSelectorTerms"
AMD64 = AMI.model_validate(
    {"id": "ami-1", "requirements": [{"key": labels.ARCH, "operator": "In", "values": ["amd64"]}]}
)
TYPES = without_images(CATALOG, [AMD64])
ON_ARM = asking("a", need(labels.ARCH, "In", "arm64"))


def engine_pool(types: Sequence[InstanceType] = TYPES, **edits: Any) -> Pool:
    return scheduling_pool(node_pool(edits=edits), types, {})


def reason(waiting: Pod, types: Sequence[InstanceType] = TYPES, **edits: Any) -> NoPlace:
    """Why the pod has no place."""
    pool = engine_pool(types, **edits)
    plan = with_types_without_image(solve(problem([waiting], pool)), [waiting], [pool], {pool.name: types})
    return plan.unschedulable[waiting.key]


def test_a_plan_takes_only_types_that_an_image_boots() -> None:
    pool = engine_pool()
    (claim,) = solve(problem([pod("a")], pool)).claims
    assert claim.instance_types
    assert not any(name.startswith("c6g.") for name in claim.instance_types)


def test_a_pod_of_another_architecture_says_that_no_image_boots_it() -> None:
    why = reason(ON_ARM)
    assert str(why).startswith(
        f"NodePool default: {NO_ARM}; without these: no available instance type of the pool meets"
    )
    (clause,) = why.clauses
    assert clause.kind is ObstacleKind.NODEPOOL, "somebody must change something"
    assert not clause.waits


def test_a_nodepool_that_allows_only_such_types_says_so() -> None:
    arm: dict[str, Any] = {REQUIREMENTS: [{"key": labels.ARCH, "operator": "In", "values": ["arm64"]}]}
    assert engine_pool(**arm).why_lacking == NO_ARM
    assert str(reason(pod("a"), **arm)) == f"NodePool default: {NO_ARM}"
    static = node_pool(edits={"replicas": 2, **arm})
    with pytest.raises(NoEmptyNodeError, match=NO_ARM):
        static_node(static, TYPES, (), {}, PlanPolicy())


def test_types_are_named_if_images_boot_others_of_their_architecture() -> None:
    with_gpu = entry(
        "g5.xlarge",
        4,
        16,
        1.0,
        capacity={"nvidia.com/gpu": "1"},
        requirements={"karpenter.k8s.aws/instance-gpu-count": ["1"]},
    )
    without_gpu = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}
    image = AMI.model_validate({"id": "ami-1", "requirements": [AMD64.requirements[0].to_dict(), without_gpu]})
    types = without_images(catalog(with_gpu, entry("m5.large", 2, 8, 0.1)), [image])
    why = str(reason(pod("a", extra={"nvidia.com/gpu": "1"}), types))
    assert why.startswith("NodePool default: no image of EC2NodeClass default boots g5.xlarge: ")
    assert why.endswith("; without these: needs nvidia.com/gpu, which none of the types that it allows has")


def test_a_pod_that_such_a_type_would_not_help_hears_nothing_of_images() -> None:
    """The NodePool excludes them, they are too small or elsewhere too, or its limit leaves no room."""
    amd: dict[str, Any] = {REQUIREMENTS: [{"key": labels.ARCH, "operator": "In", "values": ["amd64"]}]}
    tainted: dict[str, Any] = {"template/spec/taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    reasons = [
        reason(ON_ARM, **amd),
        reason(pod("a", cpu="90000")),
        reason(asking("a", need(labels.ZONE, "In", "us-west-2z"))),
        reason(pod("a"), limits={"cpu": "1"}),
        reason(pod("a"), **tainted),
    ]
    assert not [str(why) for why in reasons if "image" in str(why)]


def test_what_ec2_refuses_of_types_without_an_image_is_no_reason() -> None:
    """Its capacity would not help, and other types have it again at the time that the reason names."""
    keys = {OfferingKey(kind, "", ""): UNTIL for kind in ("spot", "on-demand")}
    types = without(TYPES, UnavailableOfferings(keys))
    arm: dict[str, Any] = {REQUIREMENTS: [{"key": labels.ARCH, "operator": "In", "values": ["arm64"]}]}
    assert scheduling_pool(node_pool(edits=arm), types, {}, refused=keys).why_lacking == NO_ARM
    pool = scheduling_pool(node_pool(), types, {}, refused=keys)
    plan = solve(problem([pod("a")], pool))
    for add in (with_refused_offerings, with_types_without_image):
        more = (keys,) if add is with_refused_offerings else ()
        plan = add(plan, [pod("a")], [pool], {pool.name: types}, *more)
    assert "image" not in str(plan.unschedulable["default/a"]), "the pod runs once EC2 has capacity"


def test_a_node_is_not_compared_with_types_that_no_image_boots() -> None:
    """Whatever EC2 refuses of them, the pods would not get one."""
    keys = {OfferingKey("on-demand", "c6g.large", zone): UNTIL for zone in ZONES}
    edits: dict[str, Any] = {REQUIREMENTS: [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]}
    types = without(TYPES, UnavailableOfferings(keys))
    pool = scheduling_pool(node_pool(edits=edits), types, {}, refused=keys)
    plan_problem = problem([pod("a")], pool)
    (claim,) = solve(plan_problem).claims
    explainer = TypeChoiceExplainer(plan_problem, {pool.name: types}, keys.get)
    assert explainer.usual(claim) is None
    assert "c6g" not in explainer.why(claim)
