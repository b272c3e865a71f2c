"""The annotations that ask for approval: which commands wait, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.approvals import (
    DEFAULT_WITHIN,
    EVERY_REASON,
    REASONS,
    ApprovalRule,
    read_approval_rules,
    read_approve_within,
)
from tenon.apis.reasons import Reason
from tenon.apis.validation import check_nodepool
from tenon.disruption.pool_policy import policy_of
from tests.activities.provisioning.fake_view import node_pool


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Drifted", [ApprovalRule(Reason.DRIFTED)]),
        (" Empty ,Unhealthy", [ApprovalRule(Reason.EMPTY), ApprovalRule(Reason.UNHEALTHY)]),
        ("Underutilized above 3 nodes", [ApprovalRule(Reason.UNDERUTILIZED, 3)]),
        (
            "Empty above 1 node or 16 cpu, Drifted",
            [ApprovalRule(Reason.EMPTY, 1, 16_000), ApprovalRule(Reason.DRIFTED)],
        ),
        ("Empty above 0.5cpu", [ApprovalRule(Reason.EMPTY, None, 500)]),
    ],
)
def test_the_annotation_lists_reasons_each_with_amounts(text: str, expected: Sequence[ApprovalRule]) -> None:
    pool = node_pool(annotations={labels.APPROVE: text})
    assert check_nodepool(pool) == []
    assert policy_of(pool).approvals == tuple(expected)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a list of reasons"),
        ("Drifted,", "is not a list of reasons"),
        ("Drfted", "'Drfted' is not a reason: the reasons that may wait are Underutilized, Empty, Drifted, Unhealthy"),
        ("expired", "'expired' never waits for an approval"),
        ("Drain", "'Drain' never waits for an approval"),
        ("Drifted, Drifted above 2 nodes", "has Drifted twice"),
        ("Drifted above many", "'many' after Drifted is not an amount"),
        ("Drifted above 1.5 nodes", "'1.5 nodes' after Drifted is not an amount"),
        ("Drifted above 2 nodes or 3 nodes", "has two numbers of nodes"),
    ],
)
def test_what_cannot_be_read_is_named_and_every_command_waits(text: str, why: str) -> None:
    pool = node_pool(annotations={labels.APPROVE: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/approve]"
    assert why in fault.sentence
    assert policy_of(pool).approvals == EVERY_REASON


@pytest.mark.parametrize(("text", "hours"), [("1m", 1 / 60), ("48h", 48), ("720h", 720), ("1h30m", 1.5)])
def test_how_long_a_command_waits_is_a_go_duration(text: str, hours: float) -> None:
    assert read_approve_within(text) == timedelta(hours=hours)
    assert policy_of(node_pool(annotations={labels.APPROVE_WITHIN: text})).approve_within == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "Never", "2d", "0", "59s", "721h", "-1h"])
def test_a_time_that_cannot_be_read_is_named_and_the_default_counts(text: str) -> None:
    pool = node_pool(annotations={labels.APPROVE_WITHIN: text})
    (fault,) = check_nodepool(pool)
    assert "is not a duration from 1m to 720h" in fault.sentence
    assert policy_of(pool).approve_within == DEFAULT_WITHIN


@given(
    st.lists(
        st.tuples(
            st.sampled_from(REASONS),
            st.none() | st.integers(0, 999_999),
            st.none() | st.integers(0, 999_999_999),
        ),
        min_size=1,
        unique_by=lambda rule: rule[0],
    )
)
def test_every_list_of_rules_can_be_written(rules: list[tuple[Reason, int | None, int | None]]) -> None:
    """And a rule with higher amounts never has more commands wait."""
    parts = []
    for reason, nodes, cpu in rules:
        amounts = [
            *([f"{nodes} nodes"] if nodes is not None else []),
            *([f"{cpu / 1000:.3f} cpu"] if cpu is not None else []),
        ]
        parts.append(f"{reason.value} above {' or '.join(amounts)}" if amounts else reason.value)
    read = read_approval_rules(", ".join(parts))
    assert read == tuple(ApprovalRule(*rule) for rule in rules)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_a_larger_command_waits_if_a_smaller_one_does(
    above_nodes: int, above_cpu: int, nodes: int, cpu: int, more: int
) -> None:
    rule = ApprovalRule(Reason.EMPTY, above_nodes, above_cpu)
    if rule.applies(nodes, cpu):
        assert rule.applies(nodes + more, cpu)
        assert rule.applies(nodes, cpu + more)
    assert ApprovalRule(Reason.EMPTY).applies(nodes, cpu), "without amounts, every command waits"
