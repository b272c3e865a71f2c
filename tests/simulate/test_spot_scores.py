"""Spot placement scores that a user states for a simulation (WSH-39)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulate.running import POOL, deployment, simulate

FOLLOWS = POOL.replace("{name: default}", "{name: default, annotations: {tenon.sh/spot-placement-scores: '5%'}}", 1)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("us-west-2a", "'us-west-2a' is no zone with a score from 1 to 10: write one such as us-west-2a=3"),
        ("us-west-2a=11", "'us-west-2a=11' is no zone with a score from 1 to 10"),
        ("us-west-2a=0", "'us-west-2a=0' is no zone with a score from 1 to 10"),
        ("eu-west-1a=3", "eu-west-1a is no zone of the catalogue, which has us-west-2a"),
    ],
)
def test_a_score_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, wrong: str) -> None:
    answer = simulate(tmp_path, FOLLOWS + deployment("web", 1), "--spot-score", text)
    assert answer.status == 2
    assert f"--spot-score: {wrong}" in answer.err


def test_files_without_scores_say_that_the_annotation_has_no_effect(tmp_path: Path) -> None:
    note = "NodePool default: tenon.sh/spot-placement-scores has an effect with --live or --spot-score only"
    answer = simulate(tmp_path, FOLLOWS + deployment("web", 1))
    assert answer.err.count(note) == 1
    assert note not in simulate(tmp_path, FOLLOWS + deployment("web", 1), "--spot-score", "us-west-2a=3").err
    assert note not in simulate(tmp_path, POOL + deployment("web", 1)).err
