"""Why a pod has no place: its order, its sentence, and the shortened forms in which each NodePool keeps a clause."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.pool_reason_json import decode, encode
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind

LONG = "needs 5000 CPU; the largest type has 192; " * 20
TAINT = Obstacle(ObstacleKind.TAINTS, "its taint gpu:NoSchedule is not tolerated")
REFUSED = Obstacle(
    ObstacleKind.CAPACITY, "EC2 refuses 1 spot offering (m5.large)", datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
)


def clause(pool: str, *obstacles: Obstacle | str, refused: tuple[Obstacle, ...] = ()) -> Clause:
    return Clause(
        pool,
        tuple(item if isinstance(item, Obstacle) else Obstacle(ObstacleKind.REQUESTS, item) for item in obstacles),
        refused,
    )


def test_the_sentence_has_a_clause_for_each_nodepool() -> None:
    reason = NoPlace((clause("a", TAINT, "needs 5 CPU"), clause("b", "needs 6 CPU", refused=(REFUSED,))))
    assert str(reason) == (
        "NodePool a: its taint gpu:NoSchedule is not tolerated, and needs 5 CPU; NodePool b: EC2 refuses 1 spot "
        "offering (m5.large): next attempt at 2026-03-01 12:05:00 UTC; without these: needs 6 CPU"
    )
    assert reason.without_times.sentences[1] == (
        "NodePool b: EC2 refuses 1 spot offering (m5.large); without these: needs 6 CPU"
    )


def test_a_reason_that_is_cut_keeps_a_clause_for_each_nodepool() -> None:
    reason = NoPlace((clause("a", LONG), clause("b", TAINT), clause("c", LONG)))
    short = reason.shortened(500)
    first, second, third = short.sentences
    assert second == "NodePool b: its taint gpu:NoSchedule is not tolerated", "a short clause is kept whole"
    assert first.startswith("NodePool a: needs 5000 CPU; the largest")
    assert third.startswith("NodePool c: needs 5000 CPU; the largest")
    assert first.endswith("…")
    assert 420 < len(str(short)) <= 500
    assert short.is_shortened
    assert [part.pool for part in short.clauses] == ["a", "b", "c"]
    assert [part.obstacles[0].kind for part in short.clauses][1:] == [ObstacleKind.TAINTS, ObstacleKind.REQUESTS]


def test_a_clause_that_is_cut_keeps_the_time_of_the_next_attempt() -> None:
    """It is what people wait for. Which offerings EC2 refuses, other places say too."""
    reason = NoPlace((clause("a", REFUSED), clause("b", TAINT)))
    short = reason.shortened(len(str(reason)) - 1)
    assert short.sentences == [
        "NodePool a: EC2 refuses 1 spot offering…: next attempt at 2026-03-01 12:05:00 UTC",
        f"NodePool b: {TAINT}",
    ]
    (tiny,) = clause("a", REFUSED).shortened(45).obstacles
    assert tiny.next_attempt is None


def test_a_reason_with_too_many_nodepools_counts_the_others() -> None:
    short = NoPlace(tuple(clause(str(number), LONG) for number in range(30))).shortened(500)
    assert short.left_out == 30 - len(short.clauses)
    assert short.sentences[-1] == f"and {short.left_out} more NodePools"
    assert len(str(short)) <= 500
    again = short.shortened(300)
    assert again.left_out + len(again.clauses) == 30
    assert len(str(again)) <= 300


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(60, 2000))
def test_a_shortened_reason_never_is_too_long_and_accounts_for_each_nodepool(lengths: list[int], most: int) -> None:
    reason = NoPlace(tuple(clause(f"p{place}", f"{'word ' * length}end") for place, length in enumerate(lengths)))
    short = reason.shortened(most)
    assert len(str(short)) <= most
    assert len(short.clauses) + short.left_out == len(lengths)
    assert short.is_shortened is (len(str(reason)) > most)


def test_nodepools_that_only_wait_come_before_those_that_never_fit() -> None:
    never = clause("b", "needs 5000 CPU; the largest has 192")
    kept_off = clause("f", TAINT, REFUSED)
    waiting = (
        clause("c", "needs 90 CPU", refused=(REFUSED,)),
        clause("d", Obstacle(ObstacleKind.LIMITS, "its limit leaves no room for another node (nodes 3)")),
        clause("e", Obstacle(ObstacleKind.SCHEDULE, "it is off until Mon by NodeSchedule hours/nights")),
        clause("g", REFUSED),
    )
    reason = NoPlace((never, waiting[0], kept_off, waiting[1]))
    assert reason.with_clauses(waiting[2:]).clauses == (*waiting, never, kept_off)
    of_all = NoPlace.of("no NodePool is ready to launch nodes", ObstacleKind.NODEPOOL)
    assert of_all.with_clauses([never, waiting[1]]).clauses == (waiting[1], *of_all.clauses, never)


def test_a_reason_is_read_from_json_as_it_was_and_other_texts_are_none() -> None:
    reason = NoPlace((clause("a", TAINT, REFUSED), clause("", "needs 5 CPU", refused=(REFUSED,)))).shortened(150)
    assert decode(encode(reason)) == reason
    assert [decode(text) for text in ("", "NodePool a: no", '{"clauses": 3}', None)] == [None] * 4


@pytest.mark.parametrize(
    "text",
    [
        '{"clauses": []}',
        '{"clauses": [{"pool": "a", "obstacles": []}]}',
        '{"clauses": [{"pool": "a", "obstacles": [{"kind": "of tomorrow", "text": "x"}]}]}',
        '{"clauses": [{"pool": "a", "obstacles": [{"kind": "capacity", "text": "x", "next_attempt": '
        '"0001-01-01T00:00:00+14:00"}]}]}',
    ],
    ids=["no clause", "no obstacle", "unknown kind", "time before all years"],
)
def test_a_reason_of_which_no_sentence_can_be_made_is_none(text: str) -> None:
    """Whoever may write events of a namespace may write such an annotation. The message of the event remains."""
    assert decode(text) is None
