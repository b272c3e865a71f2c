"""How long passes rest."""

from __future__ import annotations

from tenon.disruption.pass_pauses import pause_after, rest_after


def test_dis39_looks_use_a_tenth_of_a_core_and_at_rest_a_hundredth_for_five_minutes_at_most() -> None:
    seconds = [10.0, 10.0, 50.0, 300.0, 300.0]
    assert list(map(pause_after, (0.0, 1.0, 5.0, 30.0, 60.0))) == seconds
    assert list(map(rest_after, (0.0, 0.1, 0.5, 3.0, 60.0))) == seconds
