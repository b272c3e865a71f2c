"""Warm nodes: how many are kept, what each needs next, and which of them a plan starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import check
from tenon.apis.warm import FILLING, MAX_WARM, STARTING, STATES, STOPPED, read_warm, warm_count
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.kube.timestamps import format_instant
from tenon.messages.explanation import Explanation
from tenon.provisioning.claims import warm_claim_body
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.warm_nodes import (
    JOINS_WITHIN,
    PODS_LEAVE_WITHIN,
    STOPS_WITHIN,
    Refill,
    WarmNode,
    WarmStep,
    next_step,
    refill,
    to_start,
    warm_node,
    with_warm_nodes,
)
from tenon.resources import parse_resources
from tenon.scheduling.empty_node import NoEmptyNodeError
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, Offering, Pool, Problem
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.scheduling.builders import CATALOG, pod

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
WARM_TAINT = Taint(*labels.WARM_TAINT)
LONG_AGO = NOW - PODS_LEAVE_WITHIN


def keeping(count: object, spec: dict[str, Any] | None = None, **metadata: Any) -> NodePool:
    return node_pool("warm", spec or {}, annotations={labels.WARM: str(count)}, **metadata)


def warm(
    name: str = "a",
    state: str = STOPPED,
    *,
    since: timedelta = timedelta(),
    initialized: bool = True,
    launched: bool = True,
    created: str = "2026-05-04T10:00:00Z",
    **node: Any,
) -> WarmNode:
    annotations = {
        labels.WARM: state,
        labels.WARM_SINCE: format_instant(NOW - since),
        labels.WARM_BOOT_ID: "first",
    }
    status = {
        "providerID": f"aws:///us-west-2a/i-{name}" if launched else "",
        "conditions": [{"type": "Initialized", "status": str(initialized)}],
    }
    metadata = {"name": name, "uid": name, "creationTimestamp": created, "annotations": annotations}
    return WarmNode(ClaimRecord.of({"metadata": metadata, "spec": {}, "status": status}), **node)


# --- the annotation ---


@pytest.mark.parametrize("text", ["", "-1", "1.5", "three", str(MAX_WARM + 1), "0x10", "９", "1" * 5000])
def test_a_number_that_cannot_be_read_is_a_fault_of_the_pool_and_keeps_none(text: str) -> None:
    pool = keeping(text)
    (fault,) = check(pool)
    assert labels.WARM in fault.path
    assert "write a whole number from 0 to 1000" in fault.sentence
    assert warm_count(pool.metadata.annotations) == 0


@given(st.integers(0, MAX_WARM))
def test_a_number_within_the_bounds_is_kept(count: int) -> None:
    assert read_warm(str(count)) == warm_count({labels.WARM: str(count)}) == count
    assert check(keeping(count)) == []


# --- how many ---

nodes = st.lists(
    st.builds(
        warm,
        st.uuids().map(str),
        st.sampled_from(STATES),
        launched=st.booleans(),
        leaving=st.booleans(),
    ),
    max_size=12,
)


@given(nodes, st.integers(0, 8))
def test_what_is_missing_and_what_is_too_much_bring_the_pool_to_its_number(have: list[WarmNode], count: int) -> None:
    needed = refill(keeping(count), have)
    kept_names = {node.claim.name for node in have if node.kept}
    deleted = {claim.name for claim in needed.delete}
    assert deleted <= kept_names, "a node that starts for pods, or leaves already, is never deleted"
    assert len(kept_names - deleted) + needed.missing == count
    assert not (needed.missing and deleted)


@given(nodes)
def test_a_pool_that_is_deleted_or_static_buys_none(have: list[WarmNode]) -> None:
    deleted_pool = keeping(9, deletionTimestamp="2026-05-04T10:00:00Z")
    assert refill(deleted_pool, have).missing == 0
    assert refill(keeping(9, {"replicas": 1}), have).missing == 0


@given(nodes, st.sampled_from(["1O", "1001", "", "three"]))
def test_a_number_with_a_typing_mistake_changes_nothing(have: list[WarmNode], text: str) -> None:
    assert refill(keeping(text), have) == Refill()


def test_a_pool_without_the_annotation_keeps_no_warm_node() -> None:
    assert len(refill(node_pool("warm"), [warm("a"), warm("b")]).delete) == 2


def test_claims_without_an_instance_go_first_and_the_newest_stopped_node_last() -> None:
    old, new = warm("old"), warm("new", created="2026-05-04T11:00:00Z")
    running, unlaunched = warm("running", FILLING), warm("unlaunched", FILLING, launched=False)
    order = [claim.name for claim in refill(keeping(0), [new, running, old, unlaunched]).delete]
    assert order == ["unlaunched", "running", "old", "new"]


# --- what each needs ---


@pytest.mark.parametrize(
    ("node", "step"),
    [
        (warm(state=FILLING, initialized=False, has_node=True, ready=True), WarmStep.WAIT),
        (warm(state=FILLING, has_node=True, ready=True), WarmStep.STOP),
        (warm(state=FILLING, has_node=True, ready=True, leaving=True), WarmStep.WAIT),
        (warm(has_node=True), WarmStep.WAIT),
        (warm(has_node=True, ready=True), WarmStep.WAIT),  # its Node still looks Ready for a moment
        (warm(has_node=True, ready=True, since=STOPS_WITHIN), WarmStep.STOP),  # somebody started it
        (warm(state=STARTING, has_node=True), WarmStep.START),
        (warm(state=STARTING, has_node=True, ready=True, boot_id="first", tainted=True), WarmStep.START),
        (warm(state=STARTING, has_node=True, boot_id="second", tainted=True), WarmStep.START),
        (warm(state=STARTING, has_node=True, ready=True, boot_id="second", tainted=True), WarmStep.UNTAINT),
        (warm(state=STARTING, has_node=True, ready=True, boot_id="second"), WarmStep.FINISH),
        (warm(state=STARTING, has_node=True, since=JOINS_WITHIN), WarmStep.GIVE_UP),
        (warm(state=STARTING, since=JOINS_WITHIN), WarmStep.GIVE_UP),
        (warm(state="something else", has_node=True, ready=True), WarmStep.WAIT),
        # pods that tolerate its taint came before it was stopped
        (warm(state=FILLING, has_node=True, ready=True, tainted=True, pods_since=NOW), WarmStep.WAIT),
        (warm(state=FILLING, has_node=True, ready=True, tainted=True, pods_since=LONG_AGO), WarmStep.UNTAINT),
        (warm(state=FILLING, has_node=True, ready=True, pods_since=LONG_AGO), WarmStep.USE),
        (warm(state=FILLING, initialized=False, has_node=True, pods_since=LONG_AGO), WarmStep.WAIT),
        (warm(has_node=True, pods_since=LONG_AGO), WarmStep.WAIT),  # bound to a node that is stopped
        (warm(has_node=True, ready=True, since=STOPS_WITHIN, pods_since=NOW), WarmStep.WAIT),
        (warm(has_node=True, ready=True, since=STOPS_WITHIN, pods_since=LONG_AGO), WarmStep.USE),
    ],
)
def test_the_next_step_of_a_warm_node(node: WarmNode, step: WarmStep) -> None:
    assert next_step(node, NOW) is step


@given(st.sampled_from(STATES), st.booleans(), st.booleans(), st.sampled_from(["", "first", "second"]), st.booleans())
def test_no_pod_comes_to_a_node_before_its_new_boot_is_ready(
    state: str, ready: bool, has_node: bool, boot_id: str, tainted: bool
) -> None:
    node = warm(state=state, has_node=has_node, ready=ready, boot_id=boot_id, tainted=tainted)
    if next_step(node, NOW) in (WarmStep.UNTAINT, WarmStep.FINISH):
        assert (state, ready, boot_id) == (STARTING, True, "second")


# --- what plans do with them ---


def existing(name: str, *taints: Taint, initialized: bool = True) -> Node:
    allocatable = parse_resources({"cpu": "4", "memory": "8Gi", "pods": 50})
    return Node(name, {labels.HOSTNAME: name}, taints, allocatable, {}, initialized=initialized)


def off(name: str) -> Node:
    unreachable = Taint("node.kubernetes.io/unreachable", "NoSchedule")
    shutdown = Taint("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule")
    return existing(name, WARM_TAINT, unreachable, shutdown)


def starts(problem: Problem, states: dict[str, str]) -> list[str]:
    return to_start(solve(with_warm_nodes(problem, states)).placements, states)


@given(st.integers(1, 12), st.integers(0, 4), st.integers(0, 4))
def test_no_more_nodes_start_than_the_pods_need_and_none_twice(pods: int, stopped: int, starting: int) -> None:
    """Four pods of one CPU fit on each node. Those that start already are filled first."""
    names = [f"a-stopped-{n}" for n in range(stopped)] + [f"z-starting-{n}" for n in range(starting)]
    states = {name: STOPPED if "stopped" in name else STARTING for name in names}
    problem = Problem(pods=[pod(f"p{n}", cpu="1") for n in range(pods)], pools=(), nodes=[off(name) for name in names])
    started = starts(problem, states)
    needed = max(0, -(-pods // 4) - starting)
    assert len(started) == min(needed, stopped)
    assert set(started) <= {name for name, state in states.items() if state == STOPPED}


PRICES = {"a": "m5.4xlarge", "b": "m5.xlarge", "c": "m5.2xlarge"}
"""The types of three stopped nodes, which all have four CPU here: only their prices differ."""


def labels_of(name: str, instance_type: str) -> dict[str, str]:
    offering = {labels.ZONE: "us-west-2a", labels.CAPACITY_TYPE: labels.ON_DEMAND, labels.INSTANCE_TYPE: instance_type}
    return {labels.HOSTNAME: name, labels.NODEPOOL: "warm", **offering}


def priced(*pods: Pod, types: Mapping[str, str] = PRICES, **room: Node) -> list[str]:
    """Which of these stopped nodes of a NodePool start for the pods."""
    nodes = [replace(room.get(name, off(name)), labels=labels_of(name, kind)) for name, kind in types.items()]
    pools = [Pool("warm", Requirements.of(), CATALOG)]
    return starts(Problem(pods=pods, pools=pools, nodes=nodes), dict.fromkeys(types, STOPPED))


def test_of_the_stopped_nodes_that_fit_the_cheapest_starts() -> None:
    assert priced(pod("p", cpu="1")) == ["b"]
    assert priced(*(pod(f"p{n}", cpu="3") for n in range(2))) == ["b", "c"], "four CPU each"
    small = replace(off("b"), allocatable=parse_resources({"cpu": "2", "memory": "8Gi", "pods": 50}))
    assert priced(pod("p", cpu="3"), b=small) == ["c"], "the cheapest has no room"


def test_a_node_that_starts_for_a_large_pod_takes_small_ones_before_a_cheaper_node_starts() -> None:
    small = replace(off("b"), allocatable=parse_resources({"cpu": "2", "memory": "8Gi", "pods": 50}))
    assert priced(pod("large", cpu="3"), pod("small", cpu="1"), b=small) == ["c"]


def test_a_stopped_node_whose_price_is_not_known_starts_last() -> None:
    assert priced(pod("p", cpu="1"), types={"a": "m9.unknown", "b": "m5.4xlarge"}) == ["b"]
    assert priced(pod("p", cpu="1"), types={"a": "m9.unknown"}) == ["a"]


@pytest.mark.parametrize("tolerations", [(), (Toleration(operator="Exists"),)], ids=["usual", "tolerates-all"])
def test_act15_no_stopped_node_starts_in_a_zone_without_offerings_of_its_type(
    tolerations: tuple[Toleration, ...],
) -> None:
    """A zonal shift takes the offerings of its zone away. An offering that EC2 refused stays, marked as unavailable."""

    def takes_the_pod(state: str, offered: Callable[[Offering], Sequence[Offering]]) -> bool:
        types = [replace(kind, offerings=tuple(chain(*map(offered, kind.offerings)))) for kind in CATALOG]
        pools = [Pool("warm", Requirements.of(), types, limits={"nodes": 0})]
        waiting_pod = replace(pod("p", cpu="1"), tolerations=tolerations)
        problem = Problem(
            pods=[waiting_pod], pools=pools, nodes=[replace(off("a"), labels=labels_of("a", "m5.xlarge"))]
        )
        return bool(solve(with_warm_nodes(problem, {"a": state})).placements)

    def elsewhere(offering: Offering) -> Sequence[Offering]:
        return [offering] if offering.zone != "us-west-2a" else []

    def refused(offering: Offering) -> Sequence[Offering]:
        return [replace(offering, available=False)]

    assert not takes_the_pod(STOPPED, elsewhere)
    assert takes_the_pod(STARTING, elsewhere), "its instance was started before the shift"
    assert takes_the_pod(STOPPED, refused)


@pytest.mark.parametrize("state", [STOPPED, STARTING])
def test_a_silent_kubelet_keeps_no_pods_off_a_node_that_was_stopped(state: str) -> None:
    """Kubernetes adds this taint about a minute after the stop. Pods of floors and buffers do not tolerate it."""
    unreachable = [Taint("node.kubernetes.io/unreachable", effect) for effect in ("NoSchedule", "NoExecute")]
    problem = Problem(pods=[pod("p", cpu="1")], pools=(), nodes=[existing("a", WARM_TAINT, *unreachable)])
    assert [*solve(with_warm_nodes(problem, {"a": state})).placements] == ["a"]
    assert not solve(with_warm_nodes(problem, {})).placements


def test_a_running_node_and_one_that_is_launched_take_pods_before_a_stopped_one_starts() -> None:
    for other in (existing("z-runs"), existing("z-in-flight", initialized=False)):
        problem = Problem(pods=[pod("p", cpu="1")], pools=(), nodes=[off("a-warm"), other])
        assert starts(problem, {"a-warm": STOPPED}) == []


def test_a_warm_node_that_still_fills_takes_no_pods() -> None:
    problem = Problem(pods=[pod("p", cpu="1")], pools=(), nodes=[off("a")])
    assert starts(problem, {"a": FILLING}) == []
    assert not solve(with_warm_nodes(problem, {"a": FILLING})).placements


def test_a_taint_of_the_pool_still_keeps_pods_away() -> None:
    tainted = existing("a", WARM_TAINT, Taint("team", "NoSchedule", "blue"))
    problem = Problem(pods=[pod("p", cpu="1")], pools=(), nodes=[tainted])
    assert starts(problem, {"a": STOPPED}) == []


# --- what is bought ---


def bought(pool: NodePool, **usage: str) -> Any:
    return warm_node(pool, CATALOG, parse_resources(usage), [], {}, PlanPolicy())


def test_a_warm_node_is_on_demand_and_keeps_pods_away_until_it_has_started() -> None:
    pool = keeping(2)
    planned, why = bought(pool)
    body = warm_claim_body(planned, pool, "warm-x", why)
    (capacity_type,) = (term for term in body["spec"]["requirements"] if term["key"] == labels.CAPACITY_TYPE)
    assert capacity_type["values"] == [labels.ON_DEMAND]
    assert {"key": labels.WARM, "effect": "NoSchedule"} in body["spec"]["taints"]
    assert ClaimRecord.of(body).warm == FILLING
    assert Explanation.of(body["metadata"]["annotations"][labels.EXPLANATION]) == why
    assert why.purpose == "one of 2 warm nodes of NodePool warm"


def test_sch026_a_warm_node_has_the_label_of_which_its_pool_lists_several_values() -> None:
    pool = keeping(1, {"template/spec/requirements": [{"key": "tier", "operator": "In", "values": ["silver", "gold"]}]})
    planned, why = bought(pool)
    assert warm_claim_body(planned, pool, "warm-x", why)["metadata"]["labels"]["tier"] == "gold"


def test_a_spot_pool_and_a_full_pool_get_no_warm_node_and_hear_why() -> None:
    spot = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.SPOT]}
    with pytest.raises(NoEmptyNodeError, match="on-demand"):
        bought(keeping(1, {"template/spec/requirements": [spot]}))
    with pytest.raises(NoEmptyNodeError, match="limit"):
        bought(keeping(1, {"limits": {"cpu": "4"}}), cpu="4")


def test_wsh36_a_warm_node_counts_at_its_full_price() -> None:
    pool = keeping(1)
    pool.metadata.annotations[labels.MAX_HOURLY_COST] = "0.2"
    purchases = [BoughtOffering("warm", launch_price=0.05)]
    planned, _ = warm_node(pool, CATALOG, {}, [], {}, PlanPolicy(), purchases)
    assert planned.largest["tenon.sh/hourly-cost"] <= 150_000
    with pytest.raises(NoEmptyNodeError, match=r"tenon.sh/max-hourly-cost \$0.20"):
        warm_node(pool, CATALOG, {}, [], {}, PlanPolicy(), [BoughtOffering("warm", launch_price=0.19)])
