"""NodeRepairPolicies that are accepted or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.noderepairpolicy import MAX_EXPRESSION, NodeRepairPolicy, expression_problem
from tenon.apis.validation import parse
from tests.tenon.apis.case import REMOVED, edited
from tests.tenon.apis.sample_repair_policy import BASE, FAULT

LADDER: list[dict[str, Any]] = [
    {"action": "Wait", "patience": "5m"},
    {"action": "RebootNode", "patience": "1m", "limit": {"times": 2, "within": "24h"}},
    {"action": "ReplaceNode"},
]


def with_fault(**edits: Any) -> dict[str, Any]:
    return {"faults": [FAULT | edits]}


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"faults": []},
        {"nodePoolSelector": {"matchLabels": {"team": "ml"}}, "weight": 100},
        {"nodePoolSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
        with_fault(steps=LADDER, priority=100, terminationGracePeriod="0s"),
        {"faults": [FAULT | {"reasonRegex": "XID(48|63)"}, FAULT | {"reasonRegex": "XID74"}, FAULT]},
        with_fault(reasonRegex=r"^Node.*Xid\d+$"),
        {"budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}]},
    ],
    ids=str,
)
def test_accepted(edits: dict[str, Any]) -> None:
    policy, problems = parse(NodeRepairPolicy, edited(BASE, edits))
    assert policy is not None
    assert problems == []


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"faults": REMOVED}, "spec.faults: is required"),
        (with_fault(conditionStatus="Broken"), "spec.faults[0].conditionStatus"),
        (with_fault(tolerationDuration="Never"), "spec.faults[0].tolerationDuration"),
        (with_fault(priority=101), "spec.faults[0].priority"),
        (with_fault(steps=[]), "spec.faults[0].steps"),
        (with_fault(steps=[{"action": "Drain"}]), "spec.faults[0].steps[0].action"),
        (with_fault(steps=[{"action": "Wait"}]), "Wait needs patience"),
        (with_fault(steps=[{"action": "ReplaceNode", "limit": LADDER[1]["limit"]}]), "only RebootNode has a limit"),
        (with_fault(steps=[LADDER[2], LADDER[1]]), "spec.faults[0]: ReplaceNode must be the last step"),
        (
            with_fault(steps=[{"action": "RebootNode"}, LADDER[2]]),
            "RebootNode without a limit must be the last step",
        ),
        (with_fault(reasonRegex="("), "spec.faults[0].reasonRegex: '(' is not a regular expression"),
        (with_fault(reasonRegex="(a+)+"), "spec.faults[0].reasonRegex: '(a+)+' repeats a group"),
        (with_fault(reasonRegex=".*a.*b.*c"), "repeats something more than 2 times"),
        (with_fault(reasonRegex="a" * (MAX_EXPRESSION + 1)), "spec.faults[0].reasonRegex"),
        ({"faults": [FAULT, FAULT]}, "spec.faults[1]: names the same condition, status and reason as spec.faults[0]"),
        ({"budgets": [{"nodes": "10"}, {"nodes": "1", "schedule": "@daily"}]}, "schedule and duration"),
        ({"budgets": [{"nodes": "1", "schedule": "9 o'clock", "duration": "1h"}]}, "is not a cron schedule"),
        (
            {"nodePoolSelector": {"matchExpressions": [{"key": "team", "operator": "In"}]}},
            "operators In and NotIn need at least one value",
        ),
    ],
    ids=str,
)
def test_refused(edits: dict[str, Any], why: str) -> None:
    _, problems = parse(NodeRepairPolicy, edited(BASE, edits))
    assert any(why in str(problem) for problem in problems), problems


@given(st.text(max_size=60))
def test_any_text_is_accepted_or_refused_in_a_sentence(text: str) -> None:
    problem = expression_problem(text)
    assert isinstance(problem, str)
