"""When a wave may begin."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.apis.noderollout import NodeRolloutSpec
from tenon.messages.rollout import PoolProgress
from tenon.rollout.turn import held_back

MONDAY_NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
OFFICE_HOURS = {"schedule": "0 9 * * 1-5", "duration": "8h", "timezone": "Europe/Berlin"}
NIGHT = {"schedule": "0 22 * * *", "duration": "2h"}


def reason(
    spec: dict[str, Any], *earlier: PoolProgress, frozen: str = "", problems: tuple[str, ...] = (), closed: str = ""
) -> str:
    model = NodeRolloutSpec.model_validate(spec)
    return held_back(model, earlier, frozen=frozen, problems=problems, now=MONDAY_NOON, closed=closed)


def test_nothing_holds_a_wave_back_by_default() -> None:
    assert reason({}) == ""


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([OFFICE_HOURS], ""),
        ([NIGHT, OFFICE_HOURS], ""),
        ([NIGHT], "the next window opens on Mon 2026-11-23 at 22:00 UTC"),
    ],
)
def test_a_wave_begins_in_a_window(windows: list[dict[str, Any]], expected: str) -> None:
    assert reason({"windows": windows}) == expected


def test_a_freeze_and_a_problem_hold_waves_back() -> None:
    assert reason({}, frozen="frozen by DisruptionFreeze holidays") == (
        "the NodePool is frozen by DisruptionFreeze holidays"
    )
    off = "it is off until Thu 2026-11-26 at 08:55 UTC"
    assert reason({}, closed=off) == f"the NodePool launches no nodes, because {off}"
    assert reason({}, problems=("spec.windows[0].schedule: is no cron",)) == (
        "the NodeRollout has a problem: spec.windows[0].schedule: is no cron"
    )


@pytest.mark.parametrize("phase", ["Progressing", "Paused", "Halted", "RollingBack", "RolledBack"])
def test_nodepools_come_one_after_the_other_if_asked(phase: Any) -> None:
    """Also after a failure: the version that failed in one NodePool does not go on to the next."""
    first = PoolProgress(pool="a", phase=phase)
    assert reason({}, first) == ""
    assert reason({"strategy": {"order": "NodePool"}}, first) == (f"NodePool a comes first, and its rollout is {phase}")
    assert reason({"strategy": {"order": "NodePool"}}, PoolProgress(pool="a")) == ""
