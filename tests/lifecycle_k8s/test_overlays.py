"""The types of a claim at its launch, as NodeOverlays want them seen (NO-08, NO-10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, cast

import pytest

from activities.kubernetes.resources import EC2NODECLASSES, NODEOVERLAYS, NODEPOOLS
from activities.overlays import types_for
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.scheduling.model import InstanceType
from tests.apis.case import EC2NODECLASS, NODECLAIM, NODEPOOL, edited, term
from tests.apis.test_nodeoverlay import BASE
from tests.lifecycle_k8s.fake_kube import Clock, FakeKube
from tests.planning.fake_view import READY, node_class
from tests.scheduling.builders import catalog, entry

TYPES = catalog(entry("m5.large", 2, 8, 0.1, zones=["a"]), entry("c5.large", 2, 4, 0.08, zones=["a"]))
M5 = next(kind for kind in TYPES if kind.name == "m5.large")
PREVIEW = replace(M5, name="x9.large", offerings=tuple(replace(o, price=inf) for o in M5.offerings))


class Ec2:
    """The types of every class."""

    def instance_types(self, node_class: EC2NodeClass, *, unpriced: bool = False) -> Sequence[InstanceType]:
        return [*TYPES, PREVIEW] if unpriced else TYPES


class World:
    def __init__(self) -> None:
        self.kube = FakeKube(Clock())
        ready = {**EC2NODECLASS, "metadata": {"name": "default"}, "status": {"conditions": [READY]}}
        self.kube.add(EC2NODECLASSES, ready)
        self.kube.add(NODEPOOLS, {**NODEPOOL, "metadata": {"name": "default"}})

    def overlay(self, name: str, *requirements: dict[str, Any], **spec: Any) -> None:
        manifest = edited(BASE, {"requirements": list(requirements), **spec})
        self.kube.add(NODEOVERLAYS, {**manifest, "metadata": {"name": name}})

    async def prices(self, *traces: str, pool: str = "default") -> dict[str, float]:
        """On-demand prices as a claim of the pool with these annotations sees them."""
        marks = {"labels": {labels.NODEPOOL: pool}, "annotations": dict.fromkeys(traces, "true")}
        claim = {**NODECLAIM, "metadata": {"name": "c", **marks}}
        types = await types_for(cast("Any", self.kube), cast("Any", Ec2()), claim, node_class())
        return {kind.name: o.price for kind in types for o in kind.offerings if o.capacity_type == "on-demand"}


async def test_a_claim_without_a_trace_sees_the_types_as_ec2_describes_them() -> None:
    """And nothing is read for it."""
    at = World()
    at.overlay("o", price="7")
    at.kube.objects.clear()
    assert await at.prices() == {"m5.large": 0.1, "c5.large": 0.08}


@pytest.mark.parametrize("trace", [labels.PRICE_OVERLAY_APPLIED, labels.CAPACITY_OVERLAY_APPLIED])
async def test_a_claim_with_a_trace_sees_what_its_plan_saw(trace: str) -> None:
    at = World()
    at.overlay("o", term("karpenter.k8s.aws/instance-family", "In", "m5"), price="0.01")
    assert await at.prices(trace) == {"m5.large": 0.01, "c5.large": 0.08, "x9.large": 0.01}


async def test_an_overlay_that_does_not_hold_is_not_believed_at_a_launch_either() -> None:
    """NO-06: of two equals the later one is refused, over all NodePools together; so is one of another pool."""
    at = World()
    at.kube.add(NODEPOOLS, {**NODEPOOL, "metadata": {"name": "other"}})
    at.overlay("z", term(labels.NODEPOOL, "In", "other"), price="3")
    at.overlay("a", price="5")
    assert await at.prices(labels.PRICE_OVERLAY_APPLIED) == {"m5.large": 0.1, "c5.large": 0.08}
    assert set((await at.prices(labels.PRICE_OVERLAY_APPLIED, pool="other")).values()) == {3.0}


async def test_a_static_pool_is_seen_with_its_overlays_too() -> None:
    at = World()
    at.kube.add(NODEPOOLS, {**edited(NODEPOOL, {"replicas": 1}), "metadata": {"name": "static"}})
    at.overlay("o", term(labels.NODEPOOL, "In", "static"), price="4")
    assert set((await at.prices(labels.PRICE_OVERLAY_APPLIED, pool="static")).values()) == {4.0}
