"""What operators ask of a rollout: what each request does in each phase, and what is remembered of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.rollout.requests import MAX_OPERATIONS, RolloutRequestError
from tests.tenon.rollout.rolling_fleet import Action, Fleet, changed, spec


def test_who_started_a_rollout_and_why_stays_to_the_end() -> None:
    fleet = Fleet(spec(), count=3)
    fleet.look()
    fleet.ask("start", reason="the disks are slow", ticket="OPS-1")
    cause = "all nodes are replaced (alice, OPS-1, the disks are slow)"
    for _ in fleet.until(lambda progress: progress.phase == "Settled"):
        assert fleet.progress.cause == cause
    assert fleet.progress.cause == cause
    (operation,) = fleet.progress.operations
    assert (operation.action, operation.by, operation.reason) == ("start", "alice", "the disks are slow")


def test_the_last_requests_of_operators_are_remembered() -> None:
    fleet = changed(Fleet(spec()))
    for number in range(10):
        fleet.ask("pause", reason=f"incident {number}")
        fleet.ask("resume")
    operations = fleet.progress.operations
    assert [operation.action for operation in operations[-2:]] == ["pause", "resume"]
    assert len(operations) == MAX_OPERATIONS
    assert fleet.progress.cause == "a new version begins"


def test_a_held_version_is_released_by_an_operator() -> None:
    fleet = changed(Fleet(spec(onFailure="Rollback"), bad=frozenset({"new"})))
    fleet.run("RolledBack")
    fleet.bad = frozenset()
    fleet.ask("resume", reason="the pods were wrong")
    fleet.run("Settled")
    assert fleet.versions() == {"new": 60}


def test_a_wave_waits_for_its_approval_for_days() -> None:
    fleet = changed(Fleet(spec(gates={"approval": [2]})))
    for _ in range(3 * 24 * 60):
        fleet.step()
    assert fleet.versions() == {"new": 1, "old": 59}
    assert fleet.progress.message == "wave 2 waits for an approval: run `tenon rollout approve web`"
    fleet.ask("approve")
    fleet.run("Settled")
    assert fleet.versions() == {"new": 60}


def test_an_approval_of_a_wave_that_has_begun_is_refused() -> None:
    fleet = changed(Fleet(spec()))
    with pytest.raises(RolloutRequestError, match="wave 1 has begun already: the next one is wave 2"):
        fleet.ask("approve", wave=1)


def test_an_approval_for_one_version_is_none_for_the_next() -> None:
    fleet = changed(Fleet(spec(gates={"approval": [1]})))
    fleet.ask("approve")
    fleet.newest = "newer"
    fleet.step()
    assert fleet.progress.claims == []


def test_a_pause_replaces_nothing_and_lasts_over_a_new_version() -> None:
    fleet = changed(Fleet(spec()))
    fleet.ask("pause", reason="release")
    fleet.newest = "newer"
    for _ in range(50):
        fleet.step()
    assert fleet.versions() == {"old": 60}
    fleet.ask("resume")
    fleet.run("Settled")
    assert fleet.versions() == {"newer": 60}


def test_an_aborted_way_back_stays_and_an_aborted_rotation_is_over() -> None:
    fleet = changed(Fleet(spec()))
    fleet.step()
    fleet.newest = "old"
    assert fleet.look().phase == "RollingBack"
    fleet.ask("abort")
    assert fleet.look().phase == "Halted"
    rotated = Fleet(spec())
    rotated.look()
    rotated.now += timedelta(hours=1)
    rotated.ask("start")
    rotated.ask("abort")
    rotated.look()
    assert (rotated.progress.phase, rotated.progress.target) == ("Settled", "")


def test_aborted_waves_for_drifted_nodes_do_not_begin_again_of_themselves() -> None:
    fleet = Fleet(spec(), 10)
    fleet.look()
    fleet.nodes["web-0003"] = replace(fleet.nodes["web-0003"], drifted=True)
    fleet.look()
    fleet.ask("abort")
    after = [fleet.look().phase for _ in range(5)]
    assert after == ["Halted"] * 5
    fleet.ask("resume")
    fleet.run("Settled")
    assert fleet.touched == {"web-0003"}


def test_what_an_operator_writes_is_one_short_line() -> None:
    fleet = changed(Fleet(spec()))
    fleet.ask("pause", reason="a\nb " * 500)
    assert "\n" not in fleet.progress.message
    assert len(fleet.progress.message) < 400


def test_one_approval_holds_for_one_zone() -> None:
    fleet = changed(Fleet(spec(strategy={"order": "Zone", "waves": ["100%"]}, gates={"approval": [1]}), 9))
    fleet.ask("approve")
    for _ in range(200):
        fleet.step()
    assert "wave 1 waits for an approval" in fleet.progress.message
    assert fleet.versions() == {"new": 3, "old": 6}


def test_a_wave_that_the_strategy_does_not_have_cannot_be_approved() -> None:
    fleet = changed(Fleet(spec()))
    with pytest.raises(RolloutRequestError, match="there is no wave 4: the last one is wave 3"):
        fleet.ask("approve", wave=4)


def test_a_rotation_replaces_every_node_once() -> None:
    fleet = Fleet(spec())
    fleet.look()
    before = set(fleet.nodes)
    fleet.now += timedelta(hours=1)
    fleet.ask("start", reason="kernel leak")
    fleet.run("Settled")
    assert not before & set(fleet.nodes)
    assert fleet.touched == before
    assert fleet.progress.current == "old"


@pytest.mark.parametrize(
    ("action", "phase"),
    [
        ("pause", "Settled"),
        ("approve", "Settled"),
        ("resume", "Settled"),
        ("abort", "Settled"),
        ("rollback", "Settled"),
    ],
)
def test_a_request_that_means_nothing_is_refused_with_the_phase(action: Action, phase: str) -> None:
    fleet = Fleet(spec())
    fleet.look()
    with pytest.raises(RolloutRequestError, match=f"NodePool web is {phase}"):
        fleet.ask(action)


def test_an_operator_goes_back_in_the_middle_of_a_rollout() -> None:
    fleet = changed(Fleet(spec()))
    for _ in fleet.until(lambda progress: progress.wave == 2):
        pass
    fleet.ask("rollback", reason="latency")
    fleet.run("RolledBack")
    assert fleet.versions() == {"old": 60}


@given(
    st.lists(st.sampled_from(["step", "pause", "resume", "abort", "rollback", "approve", "newer", "old"]), max_size=30)
)
def test_no_order_of_requests_replaces_nodes_in_a_phase_that_holds(steps: list[str]) -> None:
    fleet = changed(Fleet(spec(), 10))
    for name in steps:
        if name in ("newer", "old"):
            fleet.newest = name
        elif name != "step":
            try:
                fleet.ask(name)  # type: ignore[arg-type]
            except RolloutRequestError:
                continue
        fleet.step()
        if fleet.progress.phase not in ("Progressing", "RollingBack"):
            assert fleet.progress.claims == []
        assert fleet.progress.current
        assert bool(fleet.progress.target) is (fleet.progress.phase != "Settled")
