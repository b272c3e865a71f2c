"""What the gates of a rollout say about the nodes of a new version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.noderollout import RolloutGates
from tenon.rollout.gates import GateResult, NodeEvidence, QueryAnswer, Verdict, WaitingPod, judge, overall

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
        ("initialized", [node()], Verdict.PASS),
        ("initialized", [node(), node(initialized=False)], Verdict.WAIT),
        ("initialized", [node(), node(initialized=False, minutes=16)], Verdict.FAIL),
        ("pods ready", [node()], Verdict.PASS),
        ("pods ready", [node(waiting_pods=[pod(1)])], Verdict.WAIT),
        ("pods ready", [node(waiting_pods=[pod(1), pod(11)])], Verdict.FAIL),
        ("restarts", [node(containers=5)], Verdict.PASS),
        ("restarts", [node(containers=5, restarts=3)], Verdict.PASS),
        ("restarts", [node(containers=5, crash_loops=1)], Verdict.FAIL),
        ("node conditions", [node(faults=frozenset({"KernelDeadlock=True"}))], Verdict.FAIL),
    ],
)
def test_gates_without_old_nodes(gate: str, new: list[NodeEvidence], expected: Verdict) -> None:
    assert verdict(gate, new).verdict is expected


def test_restarts_are_compared_for_each_container() -> None:
    old = [node("old", containers=100, restarts=10)]
    assert verdict("restarts", [node(containers=10, restarts=1)], old).verdict is Verdict.PASS
    assert verdict("restarts", [node(containers=10, restarts=2)], old).verdict is Verdict.FAIL
    assert verdict("restarts", [node(containers=10, crash_loops=1)], old).verdict is Verdict.FAIL


def test_a_condition_that_old_nodes_have_too_is_not_new() -> None:
    fault = frozenset({"KernelDeadlock=True"})
    assert verdict("node conditions", [node(faults=fault)], [node("old", faults=fault)]).verdict is Verdict.PASS
    result = verdict("node conditions", [node(faults=fault)], [node("old")])
    assert result.evidence == "KernelDeadlock=True on new, and on no old node"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (QueryAnswer(0.5), Verdict.PASS),
        (QueryAnswer(0.51), Verdict.FAIL),
        (QueryAnswer(-1.0), Verdict.FAIL),
        (QueryAnswer(float("nan")), Verdict.FAIL),
        (QueryAnswer(problem="no answer"), Verdict.WAIT),
        (None, Verdict.WAIT),
    ],
)
def test_a_query_must_stay_within_its_bounds(answer: QueryAnswer | None, expected: Verdict) -> None:
    answers = {} if answer is None else {"errors": answer}
    assert verdict("query errors", [node()], None, answers, prometheus=[QUERY]).verdict is expected


def test_a_gate_that_is_off_says_nothing() -> None:
    gates = RolloutGates.model_validate({"restarts": "Ignore", "nodeConditions": "Ignore"})
    assert {result.gate for result in judge(gates, [node()], [], {}, NOW)} == {"initialized", "pods ready"}


def test_one_failed_gate_fails_the_wave_and_one_that_waits_holds_it() -> None:
    passed, waits, failed = (GateResult("gate", verdict, "") for verdict in (Verdict.PASS, Verdict.WAIT, Verdict.FAIL))
    assert overall([]) is Verdict.PASS
    assert overall([passed, waits]) is Verdict.WAIT
    assert overall([waits, failed, passed]) is Verdict.FAIL
