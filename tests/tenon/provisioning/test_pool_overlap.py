"""NodePools that take the same pods are found and named; whatever tells pools apart keeps them out of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.conditions import READY, get_condition
from tenon.apis.nodepool import OVERLAPPING, NodePool
from tenon.provisioning.pool_overlap import notes, overlapping, sentence, with_overlap
from tests.ec2.samples import node_class
from tests.tenon.apis.case import NODEPOOL, edited

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAMILY = "karpenter.k8s.aws/instance-family"
FAMILIES = ("al2023", "bottlerocket", "windows2019", "windows2022")


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def pool(
    name: str,
    *terms: dict[str, Any],
    weight: int | None = None,
    taints: tuple[str, ...] = (),
    team: str = "",
    **metadata: Any,
) -> NodePool:
    edits = {
        "template/spec/requirements": list(terms),
        "template/spec/taints": [dict(zip(("key", "effect"), taint.split(":"), strict=True)) for taint in taints],
        "template/metadata": {"labels": {"team": team} if team else {}},
        **({"weight": weight} if weight else {}),
    }
    return NodePool.model_validate({**edited(NODEPOOL, edits), "metadata": {"name": name, **metadata}})


def test_equal_pools_name_each_other() -> None:
    assert overlapping([pool("b"), pool("a"), pool("c")]) == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}


def test_pools_that_share_some_nodes_overlap_and_say_what_to_do() -> None:
    result = overlapping([pool("a", term(FAMILY, "In", "m5", "c5")), pool("b", term(FAMILY, "In", "c5", "r5"))])
    assert result == {"a": ("b",), "b": ("a",)}
    text = sentence(result["a"])
    assert "NodePool b" in text
    assert "weights" in text


@pytest.mark.parametrize(
    ("pool", "other"),
    [
        (pool("a", weight=10), pool("b")),
        (pool("a", taints=("gpu:NoSchedule",)), pool("b")),
        (pool("a", taints=("gpu:NoSchedule",)), pool("b", taints=("ci:NoExecute",))),
        (pool("a", term(labels.ZONE, "In", "a")), pool("b", term(labels.ZONE, "NotIn", "a"))),
        (
            pool("a", term("karpenter.k8s.aws/instance-cpu", "Gt", "8")),
            pool("b", term("karpenter.k8s.aws/instance-cpu", "Lt", "9")),
        ),
        (pool("a", team="red"), pool("b", team="blue")),
        (pool("a"), pool("b", deletionTimestamp="2026-01-01T00:00:00Z")),
    ],
    ids=["weight", "a taint", "other taints", "zones", "bounds", "labels", "one is leaving"],
)
def test_what_separates_pools(pool: NodePool, other: NodePool) -> None:
    assert overlapping([pool, other]) == {}


def test_prefer_no_schedule_taints_do_not_separate_pools() -> None:
    assert overlapping([pool("a", taints=("x:PreferNoSchedule",)), pool("b")]) == {"a": ("b",), "b": ("a",)}


def test_a_pool_that_contradicts_itself_overlaps_with_no_other() -> None:
    impossible = [term(labels.ZONE, "In", "a"), term(labels.ZONE, "In", "b")]
    malformed = term("karpenter.k8s.aws/instance-cpu", "Gt", "1", "2")
    assert overlapping([pool("a", *impossible), pool("b"), pool("c", malformed)]) == {}


def test_the_condition_comes_and_goes_and_does_not_feed_ready() -> None:
    conditions = with_overlap([], ["b"], now=NOW)
    condition = get_condition(conditions, OVERLAPPING)
    assert condition is not None
    assert condition.status == "True"
    assert get_condition(conditions, READY) is None
    assert with_overlap(conditions, [], now=NOW) == []


def test_many_others_are_named_in_part_and_each_pair_is_said_once() -> None:
    result = overlapping([pool(f"p{number}") for number in range(9)])
    assert "p5 and 3 more, at" in sentence(result["p0"])
    assert len(notes(result)) == 8
    assert not any("NodePool p8:" in line for line in notes(result))


VALUES = st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)
TERMS = st.lists(
    st.builds(
        lambda key, operator, values: term(key, operator, *values),
        st.sampled_from([labels.ZONE, FAMILY]),
        st.sampled_from(["In", "NotIn"]),
        VALUES,
    ),
    max_size=3,
)
POOLS = st.lists(st.tuples(TERMS, st.sampled_from([None, 1]), st.sampled_from([(), ("x:NoSchedule",)])), max_size=8)


@given(POOLS)
def test_overlap_is_mutual_and_does_not_depend_on_the_order(
    pool_terms: list[tuple[list[dict[str, Any]], int | None, tuple[str, ...]]],
) -> None:
    """Symmetry; and that comparing all at once finds what comparing two by two finds."""
    pools = [
        pool(f"p{n}", *terms, weight=weight, taints=taints) for n, (terms, weight, taints) in enumerate(pool_terms)
    ]
    result = overlapping(pools)
    assert overlapping(pools[::-1]) == result
    pairs = {
        (pool.metadata.name, other.metadata.name)
        for pool in pools
        for other in pools
        if pool is not other and overlapping([pool, other])
    }
    assert {(name, other) for name, others in result.items() for other in others} == pairs
    assert {(other, name) for name, other in pairs} == pairs


def test_classes_of_other_operating_systems_keep_pools_apart() -> None:
    classes = {name: node_class(amiSelectorTerms=[{"alias": f"{name}@latest"}]) for name in FAMILIES}
    pools = {name: pool(name).model_copy(deep=True) for name in FAMILIES}
    for name, item in pools.items():
        item.spec.template.spec.node_class_ref.name = name
    result = overlapping(list(pools.values()), classes.get)
    assert result == {"al2023": ("bottlerocket",), "bottlerocket": ("al2023",)}
    assert len(overlapping(list(pools.values()))) == len(FAMILIES), "without the classes, nothing tells them apart"
