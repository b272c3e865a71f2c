"""Inputs that hypothesis draws over all rules: each plan must pass a judge that shares no code with the engine.

Where one does not, hypothesis shrinks the input to a small one that still shows the fault. The numbered inputs of
test_random.py are more, and cheaper, for nothing of how they are drawn is remembered.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.judges import oracle
from benchmarks.random_cases import drawn_case
from benchmarks.random_plans import run


@settings(max_examples=40, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_every_plan_keeps_the_rules(draw: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = run([drawn_case(0, draw)], {"oracle": oracle}, Path(folder))
    assert not result.lines, "\n".join(result.lines)
