"""The goals of a scale-in, on the model cluster: cheap, soon still, and few pods moved."""

from __future__ import annotations

from benchmarks.scale_in import GOAL_DRAINED, GOAL_RATIO, GOAL_SECONDS
from benchmarks.scale_in_model import NOW, measure


def test_a_thousand_pods_to_700_end_cheap_and_move_few_pods() -> None:
    """While looks did not wait and commands evicted one after another, 322 pods moved, some of them twice."""
    found = measure(1000, 700, NOW)
    assert found.ratio <= GOAL_RATIO
    assert found.still_after <= GOAL_SECONDS
    assert found.drained <= GOAL_DRAINED
    assert found.moved_again == 0
