"""The condition that says which version launches, and why not the newest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenon.rollout.revisions import Revision, revision_of
from tenon.rollout.version_condition import VERSION_HELD, held_sentence, with_version_held
from tenon.rollout.versions import PoolPhase, PoolRollout
from tests.tenon.rollout.test_revisions import pool, resolved

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def newest(digest: str = "new") -> Revision:
    return replace(revision_of(pool(), resolved()), digest=digest)


HALTED = PoolRollout("nodes", "web", "old", "new", PoolPhase.HALTED, message="the canary is not ready.")


def test_it_says_which_version_launches_which_does_not_and_why() -> None:
    (condition,) = with_version_held([], {"web": (HALTED, newest())}, now=NOW, observed_generation=4)
    assert (condition.type, condition.status, condition.reason) == (VERSION_HELD, "True", "RolloutHalted")
    assert condition.observed_generation == 4
    assert condition.message == (
        "New nodes of NodePool web have version old, the last one that passed. NodeRollout nodes keeps them from "
        "version new, whose rollout is halted: the canary is not ready"
    )


@pytest.mark.parametrize("phase", list(PoolPhase))
def test_each_phase_has_words_of_its_own(phase: PoolPhase) -> None:
    sentences = {held_sentence(replace(HALTED, phase=one_phase), newest()) for one_phase in PoolPhase}
    assert len(sentences) == len(PoolPhase)
    assert held_sentence(replace(HALTED, phase=phase), newest())


def test_it_is_gone_once_the_newest_version_launches() -> None:
    before = with_version_held([], {"web": (HALTED, newest())}, now=NOW, observed_generation=4)
    settled = PoolRollout("nodes", "web", "new")
    assert with_version_held(before, {"web": (settled, newest())}, now=NOW, observed_generation=5) == []
    assert with_version_held(before, {}, now=NOW, observed_generation=5) == []
    assert held_sentence(PoolRollout("nodes", "web"), newest()) == "", "no version has passed yet"


def test_a_class_that_is_not_resolved_holds_back_what_the_rollout_names() -> None:
    assert "is halted, and its EC2NodeClass is not resolved yet" in held_sentence(HALTED, None)
    assert held_sentence(PoolRollout("nodes", "web", "old"), None) == ""


def test_a_class_of_several_nodepools_says_it_of_each() -> None:
    rollouts = {"b": (replace(HALTED, pool="b"), newest()), "a": (replace(HALTED, pool="a"), newest())}
    (condition,) = with_version_held([], rollouts, now=NOW, observed_generation=1)
    assert condition.message.index("NodePool a") < condition.message.index("NodePool b")
