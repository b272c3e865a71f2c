"""Which events a rollout has, each of them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenon.messages.rollout import PoolProgress
from tenon.rollout.announcing import announcements
from tests.tenon.rollout.rolling_fleet import Fleet, changed, protect, spec

EVIDENCE = "wave 1 failed: pods ready: web-1 not Ready"


def events(fleet: Fleet, reached: Callable[[PoolProgress], bool], before: PoolProgress) -> list[tuple[str, str]]:
    """The events until a state is reached, as reason and message."""
    published: list[tuple[str, str]] = []
    states = [before]
    for _ in fleet.until(reached):
        states.append(fleet.progress)
    for earlier, later in zip(states, [*states[1:], fleet.progress], strict=True):
        published += [(item.reason, item.message) for item in announcements([earlier], [later])]
    return published


def settled(*, bad: bool = False, **fields: Any) -> Fleet:
    fleet = Fleet(spec(**fields), bad=frozenset({"new"} if bad else ()))
    fleet.look()
    fleet.newest = "new"
    return fleet


def test_a_rollout_that_passes_says_so_wave_by_wave() -> None:
    fleet = settled()
    published = events(fleet, lambda progress: progress.current == "new", fleet.progress)
    wave = ["RolloutWaveBegan", "RolloutWavePassed"]
    assert [reason for reason, _ in published] == [*wave, *wave, *wave, "RolloutPassed"]
    assert published[0][1] == "NodePool web, version new: wave 1: 0 of 1 node replaced, 1 leaves now"
    assert published[1][1] == "NodePool web, version new: wave 1 passed"
    assert published[-1][1] == "NodePool web, version new: all waves passed, and every launch has this version"


@pytest.mark.parametrize(
    ("on_failure", "phase", "expected"),
    [
        ("Halt", "Halted", ["RolloutHalted"]),
        ("Rollback", "RolledBack", ["RolloutRollingBack", "RolloutRolledBack"]),
    ],
)
def test_a_version_that_fails_names_the_gate(on_failure: str, phase: str, expected: list[str]) -> None:
    fleet = settled(bad=True, onFailure=on_failure)
    published = events(fleet, lambda progress: progress.phase == phase, fleet.progress)
    assert [reason for reason, _ in published] == ["RolloutWaveBegan", *expected]
    assert published[1][1] == f"NodePool web, version new: {EVIDENCE}"


def test_a_wave_that_waits_for_an_approval_says_how_to_give_it() -> None:
    fleet = settled(gates={"approval": [2]})
    published = events(fleet, lambda progress: progress.awaits_approval, fleet.progress)
    assert [reason for reason, _ in published] == ["RolloutWaveBegan", "RolloutWavePassed", "RolloutAwaitsApproval"]
    assert published[-1][1].endswith("wave 2 waits for an approval: run `tenon rollout approve web`")
    waits = fleet.progress
    fleet.step()
    assert announcements([waits], [fleet.progress]) == [], "it waits for days, and says so once"
    fleet.ask("approve")
    approved = fleet.progress
    fleet.step()
    assert [item.reason for item in announcements([approved], [fleet.progress])] == ["RolloutWaveBegan"]


def test_a_node_that_cannot_leave_is_told_of_once() -> None:
    fleet = changed(Fleet(spec()))
    protect(fleet, "web-0001")
    published = events(fleet, lambda progress: progress.wave == 1, fleet.progress)
    messages = [message for reason, message in published if reason == "RolloutNodeHeld"]
    assert messages == ["NodePool web, version new: web-0001 cannot leave: pod web/job must not be disrupted"]


def test_a_rollout_of_which_nothing_is_known_before_says_nothing_of_its_first_version() -> None:
    fleet = Fleet(spec())
    fleet.look()
    assert announcements([], [fleet.progress]) == []
