"""The row of a node: stage, figures, price, and what keeps or removes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.disruption_state import DisruptionState
from tenon.fleet.rows import NodeRow, node_row
from tenon.kube.taints import DISRUPTED
from tenon.kube.timestamps import format_instant
from tenon.node.state import Stage
from tests.tenon.fleet.cluster import DONE, NOW, PRICES, a_claim, a_node, a_pool, conditions, node_labels
from tests.worker.cache.objects import pod, running

DELETED = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [labels.TERMINATION_FINALIZER]}


def row(claim: Any = None, node: Any = None, pods: Any = (), pool: Any = None, event: str = "") -> NodeRow:
    return node_row(claim, node, pods, pool, PRICES, NOW, event)


def test_a_live_node_with_its_pods_and_its_price() -> None:
    pods = [
        running("a", "n", cpu="1"),
        running("b", "n", cpu="500m"),
        pod("c", nodeName="n", status={"phase": "Failed"}),
    ]
    shown = row(a_claim(), a_node(), pods)
    assert (shown.node, shown.claim, shown.pool, shown.instance_type) == ("n", "claim", "pool", "m5.large")
    assert (shown.pods, shown.pod_limit, shown.cpu_requests, shown.cpu, shown.cpu_share) == (2, 10, 1500, 4000, 0.375)
    assert (shown.stage, shown.ready, shown.price) == (Stage.LIVE, True, 0.1)
    assert shown.age_seconds(NOW) == 86400


@pytest.mark.parametrize(
    ("done", "stage"),
    [
        ((), Stage.LAUNCHING),
        (DONE[:1], Stage.REGISTERING),
        (DONE[:2], Stage.INITIALIZING),
        (DONE, Stage.LIVE),
        ((*DONE, "Rebooting"), Stage.REBOOTING),
    ],
)
def test_the_conditions_of_a_claim_say_the_stage(done: tuple[str, ...], stage: Stage) -> None:
    assert row(a_claim(done=done)).stage is stage


def test_a_claim_without_an_instance_costs_nothing_yet() -> None:
    shown = row(a_claim(done=(), node_name=""))
    assert (shown.name, shown.price, shown.disruption) == ("claim", None, DisruptionState.STARTING)


@pytest.mark.parametrize(
    ("done", "tainted", "stage"),
    [
        (DONE, False, Stage.CORDONING),
        (DONE, True, Stage.DRAINING),
        ((*DONE, "Drained"), True, Stage.DETACHING),
        ((*DONE, "Drained", "VolumesDetached"), True, Stage.TERMINATING),
        ((*DONE, "InstanceTerminating"), True, Stage.TERMINATING),
    ],
)
def test_a_node_that_leaves_says_its_stage_and_why(done: tuple[str, ...], tainted: bool, stage: Stage) -> None:
    because = '[{"reason": "Empty", "detail": "for 15s", "actor": "command c1"}]'
    claim = a_claim(done=done, meta={**DELETED, "annotations": {labels.DELETED_BECAUSE: because}})
    shown = row(claim, replace(a_node(), taints=(DISRUPTED,) if tainted else ()))
    assert (shown.stage, shown.disruption) == (stage, DisruptionState.LEAVING)
    assert shown.why == "Empty: for 15s (command c1)"


@pytest.mark.parametrize(("status", "stage"), [("Unknown", Stage.DETACHING), ("False", Stage.TERMINATING)])
def test_a_node_whose_volumes_are_not_waited_for_any_longer_terminates(status: str, stage: Stage) -> None:
    """EC2 may refuse to terminate its instance, and InstanceTerminating is not there until it accepts."""
    claim = a_claim(done=(*DONE, "Drained"), others=conditions("VolumesDetached", status=status), meta=DELETED)
    assert row(claim, replace(a_node(), taints=(DISRUPTED,))).stage is stage


def test_a_claim_that_somebody_deleted_says_so() -> None:
    shown = row(a_claim(meta=DELETED), a_node())
    assert shown.why == "Deleted: the NodeClaim was deleted (kubectl or another controller)"


def test_an_open_command_is_named_with_its_reason() -> None:
    reason = conditions("DisruptionReason", reason="Underutilized")
    shown = row(a_claim(others=reason, meta={"annotations": {labels.DISRUPTED_BY: "c7"}}), a_node())
    assert (shown.disruption, shown.command) == (DisruptionState.IN_COMMAND, "c7")
    assert shown.why == "command c7: Underutilized"


def test_a_protected_pod_protects_the_node() -> None:
    pods = [running(name, "n", meta={"annotations": {labels.DO_NOT_DISRUPT: "true"}}) for name in ("b", "a")]
    shown = row(a_claim(), a_node(), pods)
    assert shown.disruption is DisruptionState.PROTECTED
    assert shown.why == f"pod ns/a (and 1 more): annotation {labels.DO_NOT_DISRUPT} protects it"


def test_an_operator_keeps_a_node_until_a_time() -> None:
    claim = a_claim(meta={"annotations": {labels.KEEP_UNTIL: "2026-01-02T04:00:00Z"}})
    assert row(claim, a_node()).why.endswith("(until 2026-01-02 04:00:00 UTC)")
    over = a_claim(meta={"annotations": {labels.KEEP_UNTIL: "2026-01-01T04:00:00Z"}})
    assert row(over, a_node()).disruption is DisruptionState.RESTING


@pytest.mark.parametrize(
    ("options", "pool", "event", "state"),
    [
        ({"others": conditions("Drifted", reason="AMIDrift")}, None, "", DisruptionState.DRIFTED),
        ({"others": conditions("Consolidatable")}, None, "", DisruptionState.CONSOLIDATABLE),
        ({"others": conditions("Consolidatable")}, None, "a budget", DisruptionState.BLOCKED),
        ({}, None, "", DisruptionState.RESTING),
        ({}, a_pool(disruption={"consolidateAfter": "Never"}), "", DisruptionState.NEVER),
        ({}, a_pool(replicas=3), "", DisruptionState.NEVER),
        ({"expireAfter": "25h"}, None, "", DisruptionState.EXPIRING),
        ({"expireAfter": "49h"}, None, "", DisruptionState.RESTING),
    ],
)
def test_what_kubernetes_says_about_disruption(options: Any, pool: Any, event: str, state: DisruptionState) -> None:
    shown = row(a_claim(**options), a_node(), [], pool, event)
    assert shown.disruption is state
    assert shown.why


def test_a_pool_that_removes_only_empty_nodes_keeps_one_with_pods() -> None:
    claim, pool = a_claim(others=conditions("Consolidatable")), a_pool(disruption={"consolidationPolicy": "WhenEmpty"})
    shown = row(claim, a_node(), [running("a", "n")], pool)
    assert (shown.disruption, shown.why) == (
        DisruptionState.IN_USE,
        "consolidationPolicy of NodePool pool is WhenEmpty, and it has 1 pod",
    )
    assert row(claim, a_node(), [], pool).disruption is DisruptionState.CONSOLIDATABLE


def test_a_node_of_another_owner_is_shown_with_its_price() -> None:
    other = replace(
        a_node(),
        labels={labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a", "eks.amazonaws.com/capacityType": "SPOT"},
    )
    shown = row(None, other)
    assert (shown.disruption, shown.capacity_type, shown.price) == (DisruptionState.UNMANAGED, "spot", 0.03)


def test_fargate_and_unknown_types_have_no_price() -> None:
    fargate = replace(a_node(), labels={"eks.amazonaws.com/compute-type": "fargate"})
    assert row(None, fargate).price is None
    assert node_row(a_claim(), a_node(), [], None, Prices(), NOW).price is None


def test_a_spot_node_costs_what_it_cost_at_launch_if_there_are_no_spot_prices() -> None:
    """The list price is three times as high. A price that AWS says now takes precedence."""
    spot = {"labels": node_labels(capacity="spot"), "annotations": {labels.LAUNCH_PRICE: "0.0311"}}
    claim, node = a_claim(meta=spot), a_node(meta={"labels": node_labels(capacity="spot")})
    list_prices = Prices(on_demand=PRICES.on_demand)
    assert node_row(claim, node, [], None, list_prices, NOW).price == 0.0311
    assert row(claim, node).price == 0.03
    broken = a_claim(meta={**spot, "annotations": {labels.LAUNCH_PRICE: "cheap"}})
    assert node_row(broken, node, [], None, list_prices, NOW).price == 0.1


def test_a_dedicated_node_costs_what_it_cost_at_launch() -> None:
    """The prices are those of shared instances. Spot capacity has one price."""
    at_launch = {labels.LAUNCH_PRICE: "0.106"}

    def price(capacity: str, tenancy: str, annotations: dict[str, str] = at_launch) -> float | None:
        marked = {**node_labels(capacity=capacity), labels.TENANCY: tenancy}
        claim = a_claim(meta={"labels": marked, "annotations": annotations})
        return row(claim, a_node(meta={"labels": marked})).price

    assert price("on-demand", labels.DEDICATED) == 0.106
    assert price("on-demand", labels.DEFAULT_TENANCY) == 0.1
    assert price("spot", labels.DEDICATED) == 0.03
    assert price("on-demand", labels.DEDICATED, {}) == 0.1, "better than none"


def test_an_operator_who_keeps_a_node_postpones_its_expiry() -> None:
    later = NOW + timedelta(hours=2)
    kept_meta = {"annotations": {labels.KEEP_UNTIL: format_instant(later)}}
    plain = row(a_claim(expireAfter="25h"), a_node())
    assert (plain.expires, plain.kept_until) == (NOW + timedelta(hours=1), None)
    kept_row = row(a_claim(expireAfter="25h", meta={"labels": node_labels(), **kept_meta}), a_node())
    assert (kept_row.expires, kept_row.kept_until) == (later, later)
    past = {"annotations": {labels.KEEP_UNTIL: format_instant(NOW - timedelta(seconds=1))}}
    assert row(a_claim(meta={"labels": node_labels(), **past}), a_node()).kept_until is None
