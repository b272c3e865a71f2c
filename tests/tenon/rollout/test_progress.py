"""How a rollout goes on, from a change of the specs to its last wave or its way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.noderollout import NodeRolloutSpec
from tenon.messages.rollout import PoolProgress, RolloutOperator, RolloutRequest
from tenon.rollout.gates import GateResult, Verdict
from tenon.rollout.nodes import PoolNode
from tenon.rollout.progress import MAX_OPERATIONS, Observation, RolloutRequestError, advance, requested, restored
from tenon.rollout.waves import share

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Action = Literal["start", "approve", "pause", "resume", "abort", "rollback"]
GOOD = [GateResult("pods ready", Verdict.PASS, "all pods are Ready")]
BAD = [GateResult("pods ready", Verdict.FAIL, "web-1 not Ready")]


def spec(**fields: Any) -> NodeRolloutSpec:
    strategy = {"waves": ["1", "10%", "100%"], "soak": "10m", **fields.pop("strategy", {})}
    return NodeRolloutSpec.model_validate({"strategy": strategy, **fields})


def ask(action: Action, **fields: Any) -> RolloutRequest:
    return RolloutRequest(action=action, operator=RolloutOperator(pool="web", by="alice", **fields))


@dataclass
class Fleet:
    """A NodePool whose waves are carried out, as the drift method does."""

    spec: NodeRolloutSpec
    count: int = 60
    bad: frozenset[str] = frozenset()
    """Versions whose nodes fail the gates."""
    newest: str = "old"
    held_back: str = ""
    progress: PoolProgress = field(default_factory=lambda: PoolProgress(pool="web"))
    now: datetime = BEGIN
    nodes: dict[str, PoolNode] = field(default_factory=dict)
    most_leaving: int = 0
    touched: set[str] = field(default_factory=set)
    launched: int = 0

    def __post_init__(self) -> None:
        for _ in range(self.count):
            self.launch("old")

    def launch(self, revision: str) -> None:
        self.launched += 1
        name = f"web-{self.launched:04}"
        self.nodes[name] = PoolNode(name, f"zone-{self.launched % 3}", self.now, revision)

    def look(self) -> PoolProgress:
        nodes = list(self.nodes.values())
        gates = BAD if any(node.revision in self.bad for node in nodes) else GOOD
        observed = Observation(self.newest, nodes, gates, self.held_back)
        self.progress = advance(self.progress, self.spec, observed, self.now)
        return self.progress

    def step(self) -> None:
        """Look, replace the nodes of the wave, and let a minute pass."""
        progress = self.look()
        self.most_leaving = max(self.most_leaving, len(progress.claims))
        for claim in progress.claims:
            if (node := self.nodes.get(claim)) is not None and node.blocked:
                continue
            self.touched.add(claim)
            if self.nodes.pop(claim, None) is not None:
                self.launch(progress.target if progress.phase == "Progressing" else progress.current)
        self.now += timedelta(minutes=1)

    def until(self, reached: Callable[[PoolProgress], bool], steps: int = 3000) -> Iterator[None]:
        for _ in range(steps):
            if reached(self.progress):
                return
            self.step()
            yield
        raise AssertionError(f"it does not get there: {self.progress}")

    def run(self, phase: str) -> None:
        for _ in self.until(lambda progress: progress.phase == phase and progress.current != ""):
            pass

    def versions(self) -> dict[str, int]:
        revisions = [node.revision for node in self.nodes.values()]
        return {revision: revisions.count(revision) for revision in sorted(set(revisions))}

    def ask(self, action: Action, **fields: Any) -> None:
        self.progress = requested(self.progress, ask(action, **fields), self.now)


def changed(fleet: Fleet, newest: str = "new") -> Fleet:
    fleet.look()
    fleet.newest = newest
    fleet.look()
    return fleet


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


def test_a_wave_that_does_not_get_on_says_how_to_find_the_reason() -> None:
    fleet = changed(Fleet(spec()))
    fleet.now += timedelta(minutes=31)
    assert "no change since 00:00 UTC: `tenon explain node web-0001` says why" in fleet.look().message


def protect(fleet: Fleet, *claims: str) -> None:
    """Pods keep these nodes for ever."""
    for claim in claims:
        fleet.nodes[claim] = replace(fleet.nodes[claim], blocked="pod web/job must not be disrupted")


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
    assert "web-0001 (it drains since 2026-01-01 00:00 UTC" in fleet.progress.history[0].outcome
    assert fleet.most_leaving == 1, "it still counts as unavailable"


def test_gates_that_wait_are_named_and_start_the_soak_anew() -> None:
    fleet = changed(Fleet(spec()))
    fleet.step()
    fleet.step()
    assert fleet.progress.soaking_since is not None
    observed = Observation("new", list(fleet.nodes.values()), [GateResult("query errors", Verdict.WAIT, "no value")])
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
