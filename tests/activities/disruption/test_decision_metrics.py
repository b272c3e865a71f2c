"""What metrics count of a pass."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import pytest

from activities.disruption import moves
from activities.disruption.decision_metrics import MAX_SCORE
from tenon.apis.reasons import Reason
from tenon.disruption.decision import BalancedVerdict
from tests.activities.disruption.counting import PREFIX, counted
from tests.activities.disruption.move_setting import Setting, command, scripted


async def test_met29_met30_met31_a_pass_times_its_methods_and_counts_its_decisions() -> None:
    kind: Mapping[str, str] = {"reason": "underutilized", "consolidation_type": "multi"}
    delete = {"decision": "delete", **kind}

    def counts() -> list[float]:
        return [
            counted(f"{PREFIX}decisions_total", **delete),
            counted(f"{PREFIX}decisions_by_nodepool_total", nodepool="default", **delete),
            counted(f"{PREFIX}decision_evaluation_duration_seconds_count", **kind),
        ]

    before = counts()
    at = Setting("a", "b", methods=[scripted(command("a", "b"))])
    assert [len(item.candidates) for item in await at.run_pass()] == [2]
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 1]


@pytest.mark.parametrize(("seconds", "timeouts"), [(60.0, 0), (0.0, 1)])
async def test_met33_consolidation_that_reaches_its_time_limit_is_counted(
    seconds: float, timeouts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts() -> list[float]:
        name = f"{PREFIX}consolidation_timeouts_total"
        return [counted(name, consolidation_type=kind) for kind in ("multi", "")]

    before = counts()
    monkeypatch.setattr(moves, "MAX_SECONDS", seconds)
    at = Setting("a", methods=[scripted(), scripted(reason=Reason.DRIFTED, kind="")])
    await at.run_pass()
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [timeouts, 0]


async def test_met35_met36_moves_and_their_scores_are_counted() -> None:
    def counts() -> list[float]:
        result = []
        for decision, policy in (
            ("approved", "WhenEmptyOrUnderutilized"),
            ("approved", "Balanced"),
            ("rejected", "Balanced"),
        ):
            labels = {"decision": decision, "nodepool": "default", "policy": policy}
            result += [counted(f"karpenter_consolidation_{name}", **labels) for name in ("moves_total", "score_sum")]
        return result

    before = counts()
    verdicts = (
        BalancedVerdict("default", ("a",), inf, approved=True),
        BalancedVerdict("default", ("b",), 0.25, approved=False),
    )
    await Setting("a", "b", methods=[scripted(command("a"), verdicts=verdicts)]).run_pass()
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 0, 0, MAX_SCORE, 1, 0.25]


async def test_met31_commands_that_do_not_start_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pass finds them again."""
    monkeypatch.setattr(moves, "MAX_COMMANDS", 1)
    kind = {"decision": "delete", "reason": "underutilized", "consolidation_type": "multi"}
    before = counted(f"{PREFIX}decisions_total", **kind)
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    assert [item.candidates[0].claim for item in await at.run_pass()] == ["a"]
    assert counted(f"{PREFIX}decisions_total", **kind) == before + 1
