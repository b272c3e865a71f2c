"""NodeOverlays in the live planner: prices and resources of types as overlays want them seen (SCH-101, NO-08)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from activities.ec2.errors import EC2Error
from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.scheduling.model import InstanceType
from tests.activities.provisioning.fake_view import FakeTypes, FakeView, node_class, node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.apis.case import edited, term
from tests.tenon.apis.sample_overlay import BASE
from tests.tenon.scheduling.builders import pod


def overlay(*requirements: dict[str, Any], name: str = "o", **spec: Any) -> NodeOverlay:
    manifest = edited(BASE, {"requirements": list(requirements), **spec})
    return NodeOverlay.model_validate({**manifest, "metadata": {"name": name}})


class TypesOfOneClass(FakeTypes):
    """Types that can be read for one class only."""

    def instance_types(self, node_class: EC2NodeClass, *args: Any, **options: Any) -> Sequence[InstanceType]:
        if node_class.metadata.name == "broken":
            raise EC2Error("InternalError", "DescribeInstanceTypes failed")
        return super().instance_types(node_class, *args, **options)


async def planned(at: Setting) -> tuple[float, set[str], dict[str, str]]:
    """The price of the one NodeClaim that a batch writes, its types, and its annotations."""
    result = await at.planner.plan(BATCH)
    (name,) = result.claims
    return result.price, set(at.types_of(name)), at.kube.objects[name]["metadata"]["annotations"]


async def test_sch101_a_price_decides_what_is_bought_and_leaves_its_trace() -> None:
    price, types, annotations = await planned(Setting(pod("a")))
    assert price > 0.001
    assert not {labels.PRICE_OVERLAY_APPLIED, labels.CAPACITY_OVERLAY_APPLIED} & annotations.keys()
    at = Setting(pod("a"))
    at.view.node_overlays = [overlay(term(labels.INSTANCE_TYPE, "In", "r5.16xlarge"), price="0.001")]
    price, types, annotations = await planned(at)
    assert price == 0.001
    assert "r5.16xlarge" in types
    assert annotations[labels.PRICE_OVERLAY_APPLIED] == "true"
    assert labels.CAPACITY_OVERLAY_APPLIED not in annotations


async def test_sch101_a_resource_that_only_an_overlay_knows_can_be_asked_for() -> None:
    wants = pod("a", extra={"example.com/slots": "2"})
    at = Setting(wants)
    assert (await at.planner.plan(BATCH)).unschedulable == 1
    at = Setting(wants)
    at.view.node_overlays = [
        overlay(term(labels.INSTANCE_TYPE, "In", "m5.xlarge"), capacity={"example.com/slots": "4"})
    ]
    _, types, annotations = await planned(at)
    assert types == {"m5.xlarge"}
    assert annotations[labels.CAPACITY_OVERLAY_APPLIED] == "true"


async def test_a_pod_that_waits_for_a_resource_is_planned_when_an_overlay_gives_it() -> None:
    """It need not wait for its next turn: an overlay is news as a NodePool is."""
    at = Setting(pod("a", extra={"example.com/slots": "2"}))
    await at.planner.plan(BATCH)
    assert at.batcher.undecided() == []
    at.view.node_overlays = [overlay(capacity={"example.com/slots": "4"})]
    assert len(at.batcher.undecided()) == 1


async def test_no06_a_plan_leaves_out_an_overlay_that_conflicts_in_a_static_pool() -> None:
    at = Setting(pod("a"))
    at.view.node_overlays = [
        overlay(term(labels.INSTANCE_TYPE, "In", "r5.16xlarge"), name="a", price="0.001"),
        overlay(term(labels.NODEPOOL, "In", "fixed"), name="z", price="3"),
    ]
    at.view.pools = [node_pool(), node_pool("fixed", {"replicas": 1})]
    price, _, annotations = await planned(at)
    assert price > 0.001
    assert labels.PRICE_OVERLAY_APPLIED not in annotations


async def test_no06_what_one_pool_buys_does_not_depend_on_the_pools_that_are_asked_for() -> None:
    """Controllers that buy for one NodePool ask for that only, in a version that `node_pools` may lack."""
    view = FakeView()
    view.pools = [node_pool("one"), node_pool("other")]
    view.node_overlays = [
        overlay(name="a", price="5"),
        overlay(term(labels.NODEPOOL, "In", "other"), name="z", price="3"),
    ]
    version_of_one = node_pool("one", {"template/metadata/labels": {"team": "a"}})
    overlaid = await instance_types_by_pool(view, FakeTypes(), [version_of_one])
    ((pool_, types),) = overlaid.pools_with_types
    assert pool_ is version_of_one
    assert {offering.price for kind in types for offering in kind.offerings}.isdisjoint({3.0, 5.0})
    assert overlaid.refused.keys() == {"a"}
    view.pools = [node_pool("one")]
    overlaid = await instance_types_by_pool(view, FakeTypes(), [version_of_one])
    assert overlaid.refused == {}


async def test_no06_a_pool_whose_types_cannot_be_read_does_not_stop_the_others() -> None:
    """N15-052."""
    view = FakeView()
    view.pools = [node_pool("one"), node_pool("other", {"template/spec/nodeClassRef/name": "broken"})]
    view.classes["broken"] = node_class("broken")
    view.node_overlays = [overlay(name="a", price="5")]
    overlaid = await instance_types_by_pool(view, TypesOfOneClass(), [view.pools[0]])
    assert [pool.metadata.name for pool, _ in overlaid.pools_with_types] == ["one"]
    with pytest.raises(EC2Error):
        await instance_types_by_pool(view, TypesOfOneClass(), [view.pools[1]])
