"""What the gates of a rollout say about the nodes of a new version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.noderollout import RolloutGates
from tenon.messages.rollout import NodesBefore
from tenon.rollout.gates import (
    GateResult,
    GateVerdict,
    NodeEvidence,
    NodeStarts,
    QueryAnswer,
    WaitingPod,
    judge,
    overall,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUERY = {"name": "errors", "address": "http://prometheus:9090", "query": "errors", "min": "0", "max": "0.5"}


def node(claim: str = "new", minutes: float = 5, **fields: Any) -> NodeEvidence:
    fields = {"initialized": True, **fields}
    return NodeEvidence(claim, NOW - timedelta(minutes=minutes), **fields)


def pod(minutes: float) -> WaitingPod:
    return WaitingPod("shop/web-1", NOW - timedelta(minutes=minutes))


def verdict(
    gate: str,
    new: list[NodeEvidence],
    old: list[NodeEvidence] | None = None,
    answers: dict[str, QueryAnswer] | None = None,
    **gates: Any,
) -> GateResult:
    results = judge(RolloutGates.model_validate(gates), new, old or [], answers or {}, NOW)
    return next(result for result in results if result.gate == gate)


@pytest.mark.parametrize(
    ("gate", "new", "expected"),
    [
        ("initialized", [node()], GateVerdict.PASS),
        ("initialized", [node(), node(initialized=False)], GateVerdict.WAIT),
        ("initialized", [node(), node(initialized=False, minutes=16)], GateVerdict.FAIL),
        ("pods ready", [node()], GateVerdict.PASS),
        ("pods ready", [node(waiting_pods=[pod(1)])], GateVerdict.WAIT),
        ("pods ready", [node(waiting_pods=[pod(1), pod(11)])], GateVerdict.FAIL),
        ("restarts", [node(containers=5)], GateVerdict.PASS),
        ("restarts", [node(containers=5, restarts=3)], GateVerdict.PASS),
        ("restarts", [node(containers=5, crash_loops=1)], GateVerdict.FAIL),
        ("node conditions", [node(faults=frozenset({"KernelDeadlock=True"}))], GateVerdict.FAIL),
    ],
)
def test_gates_without_old_nodes(gate: str, new: list[NodeEvidence], expected: GateVerdict) -> None:
    assert verdict(gate, new).verdict is expected


def test_restarts_are_compared_for_each_container() -> None:
    old = [node("old", containers=100, restarts=10)]
    assert verdict("restarts", [node(containers=10, restarts=1)], old).verdict is GateVerdict.PASS
    assert verdict("restarts", [node(containers=10, restarts=3)], old).verdict is GateVerdict.PASS, "chance"
    assert verdict("restarts", [node(containers=10, restarts=4)], old).verdict is GateVerdict.FAIL
    assert verdict("restarts", [node(containers=10, crash_loops=1)], old).verdict is GateVerdict.FAIL


def test_a_condition_that_old_nodes_have_too_is_not_new() -> None:
    fault = frozenset({"KernelDeadlock=True"})
    assert verdict("node conditions", [node(faults=fault)], [node("old", faults=fault)]).verdict is GateVerdict.PASS
    result = verdict("node conditions", [node(faults=fault)], [node("old")])
    assert result.evidence == "KernelDeadlock=True on new, and on no old node"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (QueryAnswer(0.5), GateVerdict.PASS),
        (QueryAnswer(0.51), GateVerdict.FAIL),
        (QueryAnswer(-1.0), GateVerdict.FAIL),
        (QueryAnswer(float("nan")), GateVerdict.FAIL),
        (QueryAnswer(problem="no answer"), GateVerdict.WAIT),
        (None, GateVerdict.WAIT),
    ],
)
def test_a_query_must_stay_within_its_bounds(answer: QueryAnswer | None, expected: GateVerdict) -> None:
    answers = {} if answer is None else {"errors": answer}
    assert verdict("query errors", [node()], None, answers, prometheus=[QUERY]).verdict is expected


def test_a_gate_that_is_off_says_nothing() -> None:
    gates = RolloutGates.model_validate({"restarts": "Ignore", "nodeConditions": "Ignore"})
    assert {result.gate for result in judge(gates, [node()], [], {}, NOW)} == {"initialized", "pods ready"}


def test_one_failed_gate_fails_the_wave_and_one_that_waits_holds_it() -> None:
    passed, waits, failed = (
        GateResult("gate", verdict, "") for verdict in (GateVerdict.PASS, GateVerdict.WAIT, GateVerdict.FAIL)
    )
    assert overall([]) is GateVerdict.PASS
    assert overall([passed, waits]) is GateVerdict.WAIT
    assert overall([waits, failed, passed]) is GateVerdict.FAIL


def test_what_was_so_before_the_first_wave_fails_no_version_that_has_no_old_node_beside_it() -> None:
    before = NodesBefore(faults=["Custom=True"], containers=100, crash_loops=10)
    new = [node(containers=10, crash_loops=1, faults=frozenset({"Custom=True"}))]
    results = judge(RolloutGates(), new, [], {}, NOW, before=before)
    assert overall(results) is GateVerdict.PASS
    worse = [node(containers=10, crash_loops=2, faults=frozenset({"Other=True"}))]
    failed = {
        result.gate for result in judge(RolloutGates(), worse, [], {}, NOW, before=before) if result.verdict == "Fail"
    }
    assert failed == {"restarts", "node conditions"}


def test_pods_that_arrive_after_the_wave_do_not_hold_it_up_unless_they_are_late() -> None:
    replaced_at = NOW - timedelta(minutes=15)

    def ready(minutes: float) -> GateVerdict:
        results = judge(RolloutGates(), [node(waiting_pods=[pod(minutes)])], [], {}, NOW, replaced_at=replaced_at)
        return next(result.verdict for result in results if result.gate == "pods ready")

    assert (ready(1), ready(11)) == (GateVerdict.PASS, GateVerdict.FAIL)


def started_in_vain(minutes: float, refusal: str = "", new: list[NodeEvidence] | None = None) -> GateResult:
    """What the first gate says if nodes are being started for so long, and none became initialized."""
    since = NOW - timedelta(minutes=minutes)
    return judge(RolloutGates(), new or [], [], {}, NOW, starts=NodeStarts(since, refusal))[0]


def test_a_version_that_ec2_never_launches_fails_with_ec2s_sentence() -> None:
    """Each NodeClaim of it is deleted long before it is as old as the gate allows."""
    refusal = "CreateFleet: InvalidAMIID.NotFound: The image id '[ami-1]' does not exist"
    assert started_in_vain(14, refusal).verdict is GateVerdict.WAIT
    failed = started_in_vain(16, refusal)
    assert failed.verdict is GateVerdict.FAIL
    since = f"{NOW - timedelta(minutes=16):%Y-%m-%d} 11:44:00 UTC"
    assert failed.evidence == f"no new node initialized since {since}, within 15m: {refusal}"


def test_nodes_that_never_join_fail_although_each_is_young() -> None:
    young = [node(initialized=False, minutes=2)]
    assert started_in_vain(14, new=young).verdict is GateVerdict.WAIT
    assert started_in_vain(16, new=young).verdict is GateVerdict.FAIL
