"""What the page of a node, its events and `tenon node list --blocked` say while something blocks its drain."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenon.evolve import evolve
from tenon.lifecycle.drain_blockers import grouped
from tenon.lifecycle.messages.node import DrainResult
from tenon.lifecycle.remedies import remedies, report
from tenon.lifecycle.state import Stage
from tenon.lifecycle.termination import drained
from tenon.lifecycle.timeline import MAX_TEXT, details
from tenon.sentences import shortened
from tests.lifecycle.launched import NOW, at_live

BUDGET = "cannot be evicted: PodDisruptionBudget default/inflate allows no eviction"
TOGETHER = f"5 pods (default/web-0, default/web-1, default/web-2 and 2 more) {BUDGET}"


def held(*pods: str, why: str = BUDGET) -> list[str]:
    return [f"pod default/{pod} {why}" for pod in pods]


def test_a_budget_that_keeps_five_pods_is_named_once() -> None:
    annotated = held("db-0", "db-1", why="cannot be evicted: annotation karpenter.sh/do-not-disrupt protects it")
    sentences = [*held("web-0", "web-1"), *annotated, *held("web-2", "web-3", "web-4")]
    assert grouped(sentences) == [TOGETHER, *annotated]
    assert grouped(held("web-0")) == held("web-0")


def test_pods_that_are_deleted_at_different_times_are_told_apart() -> None:
    sentences = [
        f"{one}; it is deleted at 2026-03-01T12:0{at}:00Z all the same" for at, one in enumerate(held("a", "b"))
    ]
    assert grouped(sentences) == sentences


def test_the_remedy_of_a_grouped_sentence_names_its_budget() -> None:
    state = evolve(at_live(), stage=Stage.DRAINING, blocked=TOGETHER)
    assert remedies(state)[0] == (
        "relax PodDisruptionBudget default/inflate: `kubectl edit poddisruptionbudget -n default inflate`"
    )


def test_a_blocked_node_says_since_when_and_how_many_other_things_block_it() -> None:
    state = evolve(at_live(), stage=Stage.DRAINING)
    result = DrainResult(remaining=9, blocked=[TOGETHER, "pod a/b is stuck", "pod a/c is stuck", "pod a/d is stuck"])
    for minutes in (0, 5, 10):
        state = drained(state, result, NOW + timedelta(minutes=minutes))
    assert state.blocked == f"{TOGETHER}; pod a/b is stuck; pod a/c is stuck; and 1 more"
    assert state.blocked_since == NOW
    assert f"and 1 more, since {NOW:%Y-%m-%d %H:%M}" in details(state)
    free = drained(state, DrainResult(remaining=1), NOW + timedelta(minutes=11))
    assert (free.blocked, free.blocked_since) == ("", None)


def test_trm05_a_blocked_node_says_what_stands_idle_meanwhile_and_keeps_its_remedies() -> None:
    idle = "meanwhile Node n2 stands empty at $0.1187 an hour and waits for 5 of these pods"
    state = evolve(at_live(), stage=Stage.DRAINING)
    state = drained(state, DrainResult(remaining=5, blocked=[TOGETHER], idle=idle), NOW)
    assert state.blocked == f"{TOGETHER}; {idle}"
    page = f"{TOGETHER}; {idle.replace('$0.1187 an hour', '0.1187 USD/h')}, since {NOW:%Y-%m-%d}"
    assert f"Blocked | {page}" in details(state)
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
