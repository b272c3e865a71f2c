"""NodeOverlays in the live planner: prices and resources of types as overlays want them seen (SCH-101, NO-08)."""

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tenon.apis.nodeoverlay import NodeOverlay
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.apis.case import edited, term
from tests.tenon.apis.sample_overlay import BASE
from tests.tenon.scheduling.builders import pod


def overlay(*requirements: dict[str, Any], **spec: Any) -> NodeOverlay:
    manifest = edited(BASE, {"requirements": list(requirements), **spec})
    return NodeOverlay.model_validate({**manifest, "metadata": {"name": "o"}})


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
