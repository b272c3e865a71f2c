"""Shortening why a pod fits nowhere: each NodePool keeps a clause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.pool_reasons import by_pool, shortened_by_pool, those_that_wait_first

LONG = "needs 5000 CPU; the largest type has 192; " * 20


def test_a_reason_that_is_cut_keeps_a_clause_for_each_nodepool() -> None:
    reason = f"NodePool a: {LONG}; NodePool b: the pod does not tolerate gpu; NodePool c: {LONG}"
    text = shortened_by_pool(reason, 500)
    first, second, third = by_pool(text)
    assert second == "NodePool b: the pod does not tolerate gpu", "a short clause is kept whole"
    assert first.startswith("NodePool a: needs 5000 CPU; the largest")
    assert third.startswith("NodePool c: needs 5000 CPU; the largest")
    assert first.endswith("…")
    assert 420 < len(text) <= 500


def test_a_reason_with_too_many_nodepools_counts_the_others() -> None:
    text = shortened_by_pool("; ".join(f"NodePool {number}: {LONG}" for number in range(30)), 500)
    *clauses, rest = by_pool(text)
    assert all(clause.startswith("NodePool ") for clause in clauses)
    assert rest == f"and {30 - len(clauses)} more NodePools"


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(60, 2000))
def test_a_shortened_reason_never_is_too_long_and_accounts_for_each_nodepool(lengths: list[int], most: int) -> None:
    reason = "; ".join(f"NodePool p{place}: {'word ' * length}end" for place, length in enumerate(lengths))
    text = shortened_by_pool(reason, most)
    assert len(text) <= most
    if most >= 200:
        clauses = by_pool(text)
        rest = clauses[-1] if clauses[-1].startswith("and ") else ""
        left_out = int(rest.split()[1]) if rest else 0
        assert len(clauses) - bool(rest) + left_out == len(lengths)


def test_nodepools_that_only_wait_come_before_those_that_never_fit() -> None:
    never = "NodePool a: its taint gpu:NoSchedule is not tolerated; NodePool b: needs 5000 CPU; the largest has 192"
    waiting = (
        "NodePool c: EC2 refuses 2 spot offerings (m5.large in us-west-2a): next attempt at 12:05; without these: x",
        "NodePool d: its limit leaves no room for another node (nodes 3)",
        "NodePool e: it is off until Mon 2026-11-30 at 08:55 UTC by NodeSchedule hours/nights",
    )
    kept_off = "NodePool f: its taint x:NoExecute is not tolerated, and EC2 refuses 1 offering (m5.large)"
    reason = "; ".join([never, waiting[0], kept_off, *waiting[1:]])
    assert those_that_wait_first(reason) == "; ".join([*waiting, never, kept_off])
    assert those_that_wait_first("no NodePool is ready to launch nodes") == "no NodePool is ready to launch nodes"
