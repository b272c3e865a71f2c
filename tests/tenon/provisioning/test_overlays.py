"""What NodeOverlays change of the types that pools can buy (NO-02 to NO-07)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.provisioning.overlays import apply_overlays
from tenon.scheduling.model import InstanceType
from tests.tenon.apis.case import edited, term
from tests.tenon.apis.sample_overlay import BASE
from tests.tenon.scheduling.builders import catalog, entry

TYPES = catalog(
    entry("m5.large", 2, 8, 0.1, zones=["a", "b"], capacity={"example.com/x": "1"}),
    entry("c5.large", 2, 4, 0.08, zones=["a"]),
)
SPOT_PRICE = 0.04


def overlay(name: str, *requirements: dict[str, Any], **spec: Any) -> NodeOverlay:
    manifest = edited(BASE, {"requirements": list(requirements), **spec})
    return NodeOverlay.model_validate({**manifest, "metadata": {"name": name}})


def node_pool(name: str = "default", **fixed: str) -> NodePool:
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
    template = {"metadata": {"labels": fixed}, "spec": {"requirements": [], "nodeClassRef": reference}}
    return NodePool.model_validate({"metadata": {"name": name}, "spec": {"template": template}})


def prices(types: Sequence[InstanceType], name: str = "m5.large") -> dict[tuple[str, str], float]:
    (kind,) = [kind for kind in types if kind.name == name]
    return {(o.zone, o.capacity_type): o.price for o in kind.offerings}


def applied(*overlays: NodeOverlay) -> Sequence[InstanceType]:
    """The types of a pool under overlays that are all accepted."""
    overlaid = apply_overlays([(node_pool(), TYPES)], overlays)
    assert overlaid.refused == {}
    return overlaid.pools_with_types[0][1]


M5 = term(labels.INSTANCE_TYPE, "In", "m5.large")
ON_DEMAND = term(labels.CAPACITY_TYPE, "In", "on-demand")
UNCHANGED = {("a", "on-demand"): 0.1, ("a", "spot"): 0.04, ("b", "on-demand"): 0.1, ("b", "spot"): 0.04}


def test_no02_a_price_takes_the_place_of_the_offerings_that_are_meant() -> None:
    types = applied(overlay("o", M5, ON_DEMAND, price="0.5"))
    assert prices(types) == UNCHANGED | {("a", "on-demand"): 0.5, ("b", "on-demand"): 0.5}
    assert prices(types, "c5.large") == prices(TYPES, "c5.large")


@pytest.mark.parametrize(
    ("adjustment", "price"),
    [("-10%", 0.09), ("+50%", 0.15), ("-100%", 0.0), ("+0.02", 0.12), ("-0.03", 0.07), ("-5", 0.0)],
)
def test_no03_an_adjustment_adds_and_stops_at_zero(adjustment: str, price: float) -> None:
    types = applied(overlay("o", M5, priceAdjustment=adjustment))
    assert prices(types)["a", "on-demand"] == price


def test_no07_prices_change_by_zone_and_capacity_by_type() -> None:
    zone = term(labels.ZONE, "In", "b")
    types = applied(overlay("o", M5, zone, price="1", capacity={"example.com/x": "8", "example.com/y": "2"}))
    assert prices(types) == UNCHANGED | {("b", "on-demand"): 1.0, ("b", "spot"): 1.0}
    by_name = {kind.name: kind for kind in types}
    assert by_name["m5.large"].capacity["example.com/x"] == 8
    assert by_name["m5.large"].capacity["example.com/y"] == 2
    assert "example.com/y" not in by_name["c5.large"].capacity


@pytest.mark.parametrize(
    ("requirement", "names"),
    [
        (term("karpenter.k8s.aws/instance-family", "NotIn", "c5"), ["m5.large"]),
        (term("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist"), ["c5.large", "m5.large"]),
        (term("karpenter.k8s.aws/instance-gpu-count", "Exists"), []),
        (term("karpenter.k8s.aws/instance-cpu", "Gte", "2"), ["c5.large", "m5.large"]),
        (term("karpenter.k8s.aws/instance-cpu", "Gt", "2"), []),
        (term("example.com/rack", "Exists"), []),
        (term("example.com/rack", "NotIn", "x"), ["c5.large", "m5.large"]),
    ],
    ids=str,
)
def test_no01_requirements_are_held_against_the_labels_of_the_type(
    requirement: dict[str, Any], names: list[str]
) -> None:
    types = applied(overlay("o", requirement, price="7"))
    assert sorted(kind.name for kind in types if 7.0 in prices([kind], kind.name).values()) == names


def test_an_overlay_may_be_meant_for_one_pool() -> None:
    pools = [(node_pool("first", team="a"), TYPES), (node_pool("second", team="b"), TYPES)]
    for requirement in (term(labels.NODEPOOL, "In", "second"), term("team", "NotIn", "a")):
        overlaid = apply_overlays(pools, [overlay("o", requirement, price="7")])
        assert overlaid.pools_with_types[0][1] is TYPES
        assert set(prices(overlaid.pools_with_types[1][1]).values()) == {7.0}


def test_no05_the_heavier_overlay_wins_for_each_offering_and_each_resource() -> None:
    light = overlay("a", M5, price="1", capacity={"example.com/x": "2", "example.com/y": "2"}, weight=1)
    heavy = overlay("b", M5, ON_DEMAND, price="9", capacity={"example.com/x": "5"}, weight=2)
    types = applied(light, heavy)
    assert prices(types)["a", "on-demand"] == 9.0
    assert prices(types)["a", "spot"] == 1.0
    (kind,) = [kind for kind in types if kind.name == "m5.large"]
    assert (kind.capacity["example.com/x"], kind.capacity["example.com/y"]) == (5, 2)


@pytest.mark.parametrize("weight", [None, 7])
def test_no06_of_two_equals_the_later_by_name_descending_is_refused_as_a_whole(weight: int | None) -> None:
    more = {} if weight is None else {"weight": weight}
    first = overlay("z", M5, ON_DEMAND, price="3", **more)
    later = overlay("a", M5, price="1", capacity={"example.com/x": "9"}, **more)
    for order in ([first, later], [later, first]):
        overlaid = apply_overlays([(node_pool(), TYPES)], order)
        assert list(overlaid.refused) == ["a"]
        assert "the price of m5.large" in overlaid.refused["a"]
        assert "NodeOverlay z" in overlaid.refused["a"]
        assert prices(overlaid.pools_with_types[0][1])["a", "spot"] == SPOT_PRICE
        assert overlaid.pools_with_types[0][1][1].capacity["example.com/x"] == 1


def test_no06_equals_that_change_different_things_are_no_conflict() -> None:
    types = applied(
        overlay("a", M5, ON_DEMAND, price="3"),
        overlay("b", M5, term(labels.CAPACITY_TYPE, "In", "spot"), price="2"),
        overlay("c", M5, capacity={"example.com/y": "1"}),
        overlay("d", M5, capacity={"example.com/z": "1"}),
    )
    assert prices(types)["b", "on-demand"] == 3.0
    assert prices(types)["b", "spot"] == 2.0


def test_no06_the_same_resource_of_the_same_type_is_a_conflict() -> None:
    capacity = {"example.com/y": "1"}
    overlaid = apply_overlays([(node_pool(), TYPES)], [overlay(name, M5, capacity=capacity) for name in "ab"])
    assert list(overlaid.refused) == ["a"]
    assert "example.com/y of m5.large" in overlaid.refused["a"]


def test_a_refused_overlay_blocks_no_other() -> None:
    """a loses against z; what a would have changed elsewhere is free for the still later one."""
    z = overlay("z", M5, price="3")
    b = overlay("b", price="2")
    a = overlay("a", term(labels.INSTANCE_TYPE, "In", "c5.large"), price="1")
    overlaid = apply_overlays([(node_pool(), TYPES)], [a, b, z])
    assert list(overlaid.refused) == ["b"]
    assert set(prices(overlaid.pools_with_types[0][1], "c5.large").values()) == {1.0}


def test_requirements_that_contradict_themselves_are_reported() -> None:
    overlaid = apply_overlays(
        [(node_pool(), TYPES)], [overlay("o", M5, term(labels.INSTANCE_TYPE, "In", "x"), price="1")]
    )
    assert "contradict each other" in overlaid.refused["o"]
    assert overlaid.pools_with_types[0][1] is TYPES


@pytest.mark.parametrize(
    ("changes", "events"),
    [({"capacity": {"example.com/fpga": "1e400"}}, "example.com/fpga"), ({"price": "9" * 60}, "1,000,000 dollars")],
)
def test_figures_beyond_all_measure_are_refused(changes: dict[str, Any], events: str) -> None:
    overlaid = apply_overlays([(node_pool(), TYPES)], [overlay("o", M5, **changes)])
    assert events in overlaid.refused["o"]
    assert overlaid.pools_with_types[0][1] is TYPES


def test_no08_it_is_known_which_types_of_which_pool_were_changed() -> None:
    pools = [(node_pool("first"), TYPES), (node_pool("second"), TYPES)]
    of_first = term(labels.NODEPOOL, "In", "first")
    overlaid = apply_overlays(
        pools, [overlay("p", M5, of_first, price="1"), overlay("c", capacity={"example.com/y": "1"})]
    )
    price, capacity = {"karpenter.sh/price-overlay-applied": "true"}, {"karpenter.sh/capacity-overlay-applied": "true"}
    assert overlaid.overlay_annotations("first", ["c5.large", "m5.large"]) == {**price, **capacity}
    assert overlaid.overlay_annotations("first", ["c5.large"]) == capacity
    assert overlaid.overlay_annotations("second", ["m5.large"]) == capacity
    assert apply_overlays(pools, []).overlay_annotations("first", ["m5.large"]) == {}


def test_no10_a_type_without_a_price_can_be_bought_once_an_overlay_states_one() -> None:
    """And only then: an adjustment has nothing to adjust."""
    unknown = [replace(offering, price=inf) for offering in TYPES[0].offerings]
    preview = replace(TYPES[0], name="x9.large", offerings=tuple(unknown))
    expected = term(labels.ZONE, "In", "a")
    for change in ({"priceAdjustment": "-100%"}, {"priceAdjustment": "+1"}, {"capacity": {"example.com/y": "1"}}):
        overlaid = apply_overlays([(node_pool(), [*TYPES, preview])], [overlay("o", expected, **change)])
        assert [kind.name for kind in overlaid.pools_with_types[0][1]] == [kind.name for kind in TYPES]
    overlaid = apply_overlays([(node_pool(), [*TYPES, preview])], [overlay("o", expected, price="0.5")])
    assert prices(overlaid.pools_with_types[0][1], "x9.large") == {("a", "on-demand"): 0.5, ("a", "spot"): 0.5}


def test_pools_with_the_same_overlays_share_the_changed_types() -> None:
    """NO-05: with hundreds of pools a plan would else be busy with overlays for seconds."""
    pools = [(node_pool(f"p{number}", team="ab"[number % 2], own=str(number)), TYPES) for number in range(6)]
    overlaid = apply_overlays(
        pools, [overlay("o", M5, price="1"), overlay("a", term("team", "In", "a"), price="2", weight=1)]
    )
    assert len({id(types) for _, types in overlaid.pools_with_types}) == 2
    assert [prices(types)["a", "spot"] for _, types in overlaid.pools_with_types] == [2.0, 1.0] * 3
    assert overlaid.overlay_annotations("p4", ["c5.large"])
    assert not overlaid.overlay_annotations("p5", ["c5.large"])


def test_pools_of_other_types_and_labels_are_seen_each_for_itself() -> None:
    overlays = [
        overlay("all", price="9"),
        overlay("team", term("team", "NotIn", "a"), price="1", weight=1),
        overlay("one", term(labels.NODEPOOL, "In", "p3"), capacity={"example.com/y": "1"}, weight=2),
        overlay("family", term("karpenter.k8s.aws/instance-family", "In", "c5"), price="3", weight=3),
    ]
    pools = [
        (node_pool("p0"), TYPES),
        (node_pool("p1", team="a"), TYPES),
        (node_pool("p2", team="a"), TYPES[:1]),
        (node_pool("p3", team="b"), TYPES),
        (node_pool("p4", **{"karpenter.k8s.aws/instance-family": "c5"}), TYPES),
    ]
    together = apply_overlays(pools, overlays).pools_with_types
    assert together == [apply_overlays([pool], overlays).pools_with_types[0] for pool in pools]
    assert len({str(types) for _, types in together}) == 5
