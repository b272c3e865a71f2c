"""What the page of a node, its events and `tenon node list --blocked` say while something blocks its drain."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.node_steps import BlockedPods, DrainResult
from tenon.node import machine
from tenon.node.drain_blockers import grouped, sentence
from tenon.node.leaving_stages import drained
from tenon.node.page import current_details
from tenon.node.remedies import remedies, report
from tenon.node.state import Blocked, Stage
from tenon.node.steps import Failed
from tenon.node.timeline import MAX_TEXT, details, why_blocked
from tenon.sentences import shortened
from tests.tenon.node.launched import NOW, at_live

ALLOWS_NONE = "PodDisruptionBudget default/inflate allows no eviction"
TOGETHER = f"5 pods (default/web-0, default/web-1, default/web-2 and 2 more) cannot be evicted: {ALLOWS_NONE}"
ANNOTATION = "karpenter.sh/do-not-disrupt"


def by_budget(*pods: str, more: int = 0, **fields: Any) -> BlockedPods:
    names = tuple(f"default/{pod}" for pod in pods)
    why = f"cannot be evicted: {ALLOWS_NONE}"
    return BlockedPods(pods=names, more=more, why=why, budgets=("default/inflate",), **fields)


def annotated(pod: str) -> BlockedPods:
    why = f"cannot be evicted: annotation {ANNOTATION} protects it"
    return BlockedPods(pods=(f"default/{pod}",), why=why, annotation=ANNOTATION)


GROUP = by_budget("web-0", "web-1", "web-2", more=2)


def test_a_budget_that_keeps_five_pods_is_named_once() -> None:
    ones = [by_budget(f"web-{number}") for number in range(5)]
    blocked = [*ones[:2], annotated("db-0"), annotated("db-1"), *ones[2:]]
    assert grouped(blocked) == [GROUP, annotated("db-0"), annotated("db-1")]
    assert sentence(GROUP) == TOGETHER
    assert grouped([by_budget("web-0")]) == [by_budget("web-0")]
    assert sentence(by_budget("web-0")) == f"pod default/web-0 cannot be evicted: {ALLOWS_NONE}"


def test_pods_that_are_deleted_at_different_times_are_told_apart() -> None:
    blocked = [by_budget(pod, deleted_at=NOW + timedelta(minutes=at)) for at, pod in enumerate(("a", "b"))]
    assert grouped(blocked) == blocked
    assert sentence(blocked[1]).endswith("allows no eviction; it is deleted at 2026-11-21 12:01:00 UTC all the same")


def test_the_remedy_of_a_group_names_its_budget() -> None:
    state = evolve(at_live(), stage=Stage.DRAINING, blocked=Blocked(pods=(GROUP,)))
    assert remedies(state)[0] == (
        "relax PodDisruptionBudget default/inflate: `kubectl edit poddisruptionbudget -n default inflate`"
    )


def test_a_blocked_node_says_since_when_and_how_many_other_things_block_it() -> None:
    state = evolve(at_live(), stage=Stage.DRAINING)
    stuck = [BlockedPods(pods=(f"a/{name}",), why="is stuck") for name in "bcd"]
    result = DrainResult(remaining=9, blocked=[GROUP, *stuck])
    for minutes in (0, 5, 10):
        state = drained(state, result, NOW + timedelta(minutes=minutes))
    assert state.blocked == Blocked(pods=(GROUP, *stuck[:2]), more=1, since=NOW)
    assert why_blocked(state) == f"{TOGETHER}; pod a/b is stuck; pod a/c is stuck; and 1 more"
    assert f"and 1 more, since {NOW:%Y-%m-%d %H:%M}" in details(state)
    free = drained(state, DrainResult(remaining=1), NOW + timedelta(minutes=11))
    assert (free.blocked, why_blocked(free)) == (None, "")


def test_an_attempt_that_fails_in_between_does_not_begin_the_block_again() -> None:
    state = drained(evolve(at_live(), stage=Stage.DRAINING), DrainResult(remaining=5, blocked=[GROUP]), NOW)
    failed = machine.apply(state, Failed(activity=ActivityName.DRAIN, message="timeout"), NOW + timedelta(minutes=1))
    again = drained(failed, DrainResult(remaining=5, blocked=[GROUP]), NOW + timedelta(minutes=2))
    assert again.blocked == state.blocked


def test_trm05_a_blocked_node_says_what_stands_idle_meanwhile_and_keeps_its_remedies() -> None:
    idle = "meanwhile Node n2 stands empty at $0.1187 an hour and waits for 5 of these pods"
    state = evolve(at_live(), stage=Stage.DRAINING)
    state = drained(state, DrainResult(remaining=5, blocked=[GROUP], idle=idle), NOW)
    assert why_blocked(state) == f"{TOGETHER}; {idle}"
    assert f"Blocked: {TOGETHER}; {idle}, since {NOW:%Y-%m-%d}" in details(state)
    in_temporal_ui = idle.replace("$0.1187 an hour", "0.1187 USD/h")
    assert f"Blocked: {TOGETHER}; {in_temporal_ui}, since {NOW:%Y-%m-%d}" in current_details(state)
    assert f"{TOGETHER}; {idle}, since {NOW:%Y-%m-%d %H:%M}" in report(state)
    assert remedies(state)[0].startswith("relax PodDisruptionBudget default/inflate: ")


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("pods wait for it", 16, "pods wait for it"),
        ("pods wait for it, and more", 18, "pods wait for it…"),
        ("a" * 20, 10, "a" * 9 + "…"),
    ],
)
def test_no_sentence_is_cut_within_a_word(text: str, most: int, shown: str) -> None:
    assert shortened(text, most) == shown
    assert len(shortened("word " * MAX_TEXT, MAX_TEXT)) <= MAX_TEXT
