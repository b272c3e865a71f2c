"""How a rollout goes on, from a change of the specs to its last wave or its way back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.rollout.gates import GateResult, GateVerdict
from tenon.rollout.progress import Observation, advance, restored
from tenon.rollout.waves import share
from tests.tenon.rollout.rolling_fleet import BEGIN, Fleet, changed, protect, spec


def test_a_nodepool_without_a_version_settles_with_the_newest() -> None:
    fleet = Fleet(spec())
    fleet.look()
    assert (fleet.progress.phase, fleet.progress.current, fleet.progress.target) == ("Settled", "old", "")


def test_a_version_that_fails_touches_one_wave_and_goes_back() -> None:
    fleet = changed(Fleet(spec(onFailure="Rollback"), bad=frozenset({"new"})))
    fleet.run("RolledBack")
    assert len(fleet.touched) == 2, "one node that got the new version, and its replacement"
    assert fleet.versions() == {"old": 60}
    assert (fleet.progress.current, fleet.progress.target) == ("old", "new")
    assert "pods ready: Fail, web-1 not Ready" in fleet.progress.history[-1].evidence
    for _ in range(100):
        fleet.step()
    assert fleet.progress.phase == "RolledBack", "what failed stays held"


def test_a_version_that_fails_halts_if_asked() -> None:
    fleet = changed(Fleet(spec(), bad=frozenset({"new"})))
    fleet.run("Halted")
    for _ in range(100):
        fleet.step()
    assert fleet.versions() == {"new": 1, "old": 59}


def test_a_later_version_begins_after_one_that_failed() -> None:
    fleet = changed(Fleet(spec(onFailure="Rollback"), bad=frozenset({"new"})))
    fleet.run("RolledBack")
    fleet.newest = "newer"
    fleet.step()
    fleet.run("Settled")
    assert fleet.versions() == {"newer": 60}


def test_specs_that_describe_the_current_version_again_end_a_hold() -> None:
    fleet = changed(Fleet(spec(), bad=frozenset({"new"})))
    fleet.run("Halted")
    fleet.newest = "old"
    fleet.run("Settled")
    assert fleet.versions() == {"old": 60}
    assert fleet.progress.target == ""


def test_a_closed_window_begins_no_wave_and_leaves_what_runs_alone() -> None:
    fleet = Fleet(spec(), held_back="the window opens at 09:00")
    changed(fleet)
    for _ in range(50):
        fleet.step()
    assert fleet.versions() == {"old": 60}
    assert fleet.progress.message == "wave 1 waits: the window opens at 09:00"
    fleet.held_back = ""
    fleet.run("Settled")
    assert fleet.versions() == {"new": 60}


def test_nodes_that_are_launched_during_the_rollout_are_replaced_too() -> None:
    fleet = changed(Fleet(spec()))
    for place, _ in enumerate(fleet.until(lambda progress: progress.phase == "Settled")):
        if place < 100:
            fleet.launch("old")
    assert fleet.versions() == {"new": 160}


def test_launches_that_never_end_do_not_keep_a_rollout_from_its_end() -> None:
    """Each launch has the version that passed last, until the last wave has passed."""
    fleet = changed(Fleet(spec(), 20))
    for _ in fleet.until(lambda progress: progress.phase == "Settled"):
        fleet.launch(fleet.progress.current)
    assert fleet.progress.current == "new"
    assert set(fleet.versions()) == {"new"}


def test_a_later_version_that_came_during_the_way_back_begins_after_it() -> None:
    fleet = changed(Fleet(spec(onFailure="Rollback"), bad=frozenset({"new"})))
    for _ in fleet.until(lambda progress: progress.phase == "RollingBack"):
        pass
    fleet.newest = "newer"
    fleet.run("Settled")
    assert fleet.versions() == {"newer": 60}


def test_a_launch_of_the_failed_version_that_came_late_goes_back_too() -> None:
    fleet = changed(Fleet(spec(onFailure="Rollback"), bad=frozenset({"new"})))
    fleet.run("RolledBack")
    fleet.launch("new")
    fleet.step()
    fleet.run("RolledBack")
    assert "new" not in fleet.versions()


def test_nodes_that_drifted_for_another_reason_leave_in_waves() -> None:
    """The NodeRollout came together with a change, or a capacity reservation ended."""
    fleet = Fleet(spec(), 10)
    fleet.look()
    for name in ("web-0003", "web-0004"):
        fleet.nodes[name] = replace(fleet.nodes[name], revision="", drifted=True)
    fleet.look()
    assert (fleet.progress.phase, fleet.progress.claims) == ("Progressing", ["web-0003"])
    fleet.run("Settled")
    assert fleet.touched == {"web-0003", "web-0004"}


def test_a_wave_that_does_not_get_on_says_how_to_find_the_reason() -> None:
    fleet = changed(Fleet(spec()))
    fleet.now += timedelta(minutes=31)
    assert "no change since 2026-01-01 00:00:00 UTC: `tenon explain node web-0001` says why" in fleet.look().message


def test_a_node_that_cannot_leave_gives_its_place_to_another_one() -> None:
    """One protected pod must not keep a new version from all other nodes."""
    fleet = changed(Fleet(spec()))
    protect(fleet, "web-0001")
    assert fleet.progress.claims == ["web-0001"]
    for _ in range(30):
        fleet.step()
    assert fleet.touched == set(), "half an hour is not over"
    fleet.step()
    assert fleet.touched == {"web-0002"}, "a wave of one node touches one node"
    assert "1 node cannot leave: web-0001 (pod web/job must not be disrupted)" in fleet.progress.message
    for _ in fleet.until(lambda progress: progress.passed):
        pass
    assert fleet.versions() == {"new": 59, "old": 1}
    assert (fleet.progress.phase, fleet.progress.current) == ("Progressing", "new"), "launches have the new version"
    waves = len(fleet.progress.history)
    for _ in range(200):
        fleet.step()
    assert len(fleet.progress.history) == waves, "what waits for one node passes nothing again and again"
    assert "web-0001 (pod web/job must not be disrupted)" in fleet.progress.message
    assert fleet.progress.claims == ["web-0001"], "it goes as soon as it can"
    fleet.nodes["web-0001"] = replace(fleet.nodes["web-0001"], blocked="")
    fleet.run("Settled")
    assert fleet.versions() == {"new": 60}


def test_a_canary_does_not_pass_without_a_node_if_none_can_leave() -> None:
    fleet = changed(Fleet(spec(), 3))
    protect(fleet, *fleet.nodes)
    tried_claims = set()
    for _ in range(24 * 60):
        fleet.step()
        tried_claims |= set(fleet.progress.claims)
    assert (fleet.progress.wave, fleet.versions()) == (0, {"old": 3})
    assert tried_claims == set(fleet.nodes), "each of them is tried"
    assert len(fleet.progress.claims) == 1


def test_a_node_that_waits_for_a_budget_is_not_given_up() -> None:
    """Nothing is known to keep it, so another node would wait as long."""
    fleet = changed(Fleet(spec()))
    for _ in range(100):
        fleet.look()
        fleet.now += timedelta(minutes=1)
    assert fleet.progress.claims == ["web-0001"]
    assert fleet.progress.held_nodes == []


def test_a_node_that_drains_for_ever_does_not_hold_the_next_wave_but_its_place() -> None:
    fleet = changed(Fleet(spec(strategy={"maxUnavailable": "2"})))
    fleet.launch("new")  # the replacement runs, and the old node drains
    protect(fleet, "web-0001")
    fleet.nodes["web-0001"] = replace(fleet.nodes["web-0001"], leaving=True, leaving_since=fleet.now)
    for _ in range(29):
        fleet.step()
    assert fleet.progress.wave == 0
    for _ in range(20):
        fleet.step()
    assert fleet.progress.wave == 1
    assert "web-0001 (it drains since 2026-01-01 00:00:00 UTC" in fleet.progress.history[0].outcome
    assert fleet.most_leaving == 1, "it still counts as unavailable"


def test_gates_that_wait_are_named_and_start_the_soak_anew() -> None:
    fleet = changed(Fleet(spec()))
    fleet.step()
    fleet.step()
    assert fleet.progress.soaking_since is not None
    observed = Observation(
        "new", list(fleet.nodes.values()), [GateResult("query errors", GateVerdict.WAIT, "no value")]
    )
    waits = advance(fleet.progress, fleet.spec, observed, fleet.now)
    assert waits.soaking_since is None
    assert waits.message == "wave 1 is replaced and waits: query errors: no value"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("Settled", "Settled"), ("Progressing", "Progressing"), ("RolledBack", "RolledBack"), ("Halted", "Halted")],
)
def test_a_rollout_whose_memory_is_lost_goes_on_from_the_status(phase: str, expected: str) -> None:
    """A version that failed must not become the last one that passed."""
    target = "" if phase == "Settled" else "new"
    row = {"name": "web", "phase": phase, "currentRevision": "old", "targetRevision": target, "message": "m"}
    progress = restored(row)
    assert (progress.phase, progress.current, progress.target) == (expected, "old", target)
    after = advance(progress, spec(), Observation("old" if not target else "new"), BEGIN)
    assert (after.phase, after.current) == (expected, "old")


@given(
    waves=st.lists(st.sampled_from(["1", "2", "10%", "50%"]), max_size=3),
    most=st.sampled_from(["1", "10%", "50%"]),
    order=st.sampled_from(["Fleet", "Zone"]),
    count=st.integers(1, 30),
    bad=st.booleans(),
)
def test_every_rollout_ends_and_never_touches_too_many(
    waves: list[str], most: str, order: str, count: int, *, bad: bool
) -> None:
    strategy = {"waves": [*waves, "100%"], "maxUnavailable": most, "order": order}
    fleet = Fleet(spec(strategy=strategy, onFailure="Rollback"), count, frozenset({"new"} if bad else ()))
    changed(fleet)
    fleet.run("RolledBack" if bad else "Settled")
    assert fleet.versions() == {"old" if bad else "new": count}
    assert fleet.most_leaving <= share(most, count)


@pytest.mark.parametrize("order", ["Fleet", "Zone"])
def test_warm_nodes_get_a_version_once_it_has_passed(order: str) -> None:
    """What is bought in the place of one that leaves earlier has the version before, and would be replaced again."""
    fleet = Fleet(spec(strategy={"order": order}), count=20)
    for _ in range(4):
        fleet.launch("old", warm=True)
    launched = fleet.launched
    changed(fleet)
    warm = {name for name, node in fleet.nodes.items() if node.warm}
    for _ in fleet.until(lambda progress: progress.current == "new"):
        if fleet.progress.current == "old":
            assert warm <= set(fleet.nodes)
        else:
            assert fleet.versions()["new"] >= 20, "all others have it"
    fleet.run("Settled")
    assert fleet.versions() == {"new": 24}
    assert fleet.launched - launched == 24, "each is replaced once"
    assert fleet.progress.message == "all waves passed", "no other rollout begins for the warm nodes"


def test_warm_nodes_without_others_are_replaced_once() -> None:
    fleet = Fleet(spec(), count=0)
    for _ in range(4):
        fleet.launch("old", warm=True)
    changed(fleet)
    fleet.run("Settled")
    assert fleet.versions() == {"new": 4}
    assert fleet.launched == 8


def test_warm_nodes_that_drifted_without_a_new_version_leave_in_waves() -> None:
    """What is bought in their place has the version that all have."""
    fleet = Fleet(spec(), count=0)
    for _ in range(4):
        fleet.launch("old", warm=True)
    fleet.look()
    fleet.nodes = {name: replace(node, drifted=True) for name, node in fleet.nodes.items()}
    fleet.step()
    fleet.run("Settled")
    assert fleet.launched == 8
    assert not any(node.drifted for node in fleet.nodes.values())
