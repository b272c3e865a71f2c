"""How long a teardown terminates instances: it ends always, and its report never says more than is true."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tenon.messages.teardown import ClusterInstance, TerminateRoundResult
from tenon.teardown.rounds import (
    BOUGHT_AGAIN,
    MAX_REFUSALS,
    MAX_ROUNDS,
    SETTLE,
    STUCK,
    Rounds,
    after,
    begin_rounds,
    ended_instances,
    left_instances,
    pause_before_next,
)

NOW = datetime(2026, 11, 27, tzinfo=UTC)


@dataclass
class Fleet:
    """EC2 with the instances of one cluster: some end at once, some late, some never, some are refused."""

    alive: dict[str, int]
    """Instance to how many rounds it is still alive after it was asked; -1: for ever."""
    refused: frozenset[str] = frozenset()
    late: dict[int, str] = field(default_factory=dict)
    """By round, an instance that EC2 shows only then."""
    shuts_down: int = 1
    """How many rounds an instance shuts down."""
    leaving: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)

    def answer(self, rounds: Rounds) -> TerminateRoundResult:
        if (name := self.late.get(rounds.number)) is not None:
            self.alive[name] = 0
        names = sorted(name for name in self.alive if name not in rounds.given_up)
        result = TerminateRoundResult(
            alive=[ClusterInstance(id=name, state="running") for name in names],
            alive_count=len(names),
            leaving_count=len(self.leaving),
            refusals={name: "it is protected" for name in names if name in self.refused},
        )
        self.leaving = {name: rounds_left - 1 for name, rounds_left in self.leaving.items() if rounds_left > 1}
        for name in names:
            self.requests[name] = self.requests.get(name, 0) + 1
            if name in self.refused or self.alive[name] < 0:
                continue
            self.alive[name] -= 1
            if self.alive[name] < 0:
                del self.alive[name]
                if self.shuts_down:
                    self.leaving[name] = self.shuts_down
        return result


def run(fleet: Fleet) -> tuple[Rounds, datetime]:
    rounds, now = Rounds(), NOW
    for _ in range(MAX_ROUNDS + 1):
        rounds = after(rounds, fleet.answer(rounds), now)
        pause = pause_before_next(rounds, now)
        if pause is None:
            return rounds, now
        assert pause > timedelta()
        now += pause
    raise AssertionError("the rounds never end")


NAMES = st.sampled_from([f"i-{number}" for number in range(6)])
FLEETS = st.builds(
    Fleet,
    alive=st.dictionaries(NAMES, st.integers(min_value=-1, max_value=6)),
    refused=st.frozensets(NAMES),
    late=st.dictionaries(st.integers(min_value=0, max_value=8), st.sampled_from(["i-7", "i-8"])),
    shuts_down=st.integers(min_value=0, max_value=5),
)


@given(FLEETS)
def test_rounds_end_and_each_instance_has_ended_or_is_named(fleet: Fleet) -> None:
    before = set(fleet.alive)
    rounds, _ = run(fleet)
    ended, leftovers = set(ended_instances(rounds)), {item.name for item in left_instances(rounds)}
    assert not ended & set(fleet.alive)
    assert set(fleet.alive) <= leftovers
    assert before <= ended | leftovers


@given(FLEETS)
def test_what_ec2_refuses_is_asked_a_few_times(fleet: Fleet) -> None:
    run(fleet)
    assert all(fleet.requests[name] <= MAX_REFUSALS for name in fleet.refused & fleet.requests.keys())


def test_an_empty_cluster_ends_after_nothing_was_alive_for_some_time() -> None:
    """EC2 shows an instance late that was bought a moment before."""
    rounds, at = run(Fleet({}, late={1: "i-7"}))
    assert set(ended_instances(rounds)) == {"i-7"}
    assert at - NOW >= SETTLE


def test_a_protected_instance_stays_with_ec2s_words() -> None:
    rounds, _ = run(Fleet({"i-1": 0, "i-2": 0}, refused=frozenset({"i-2"})))
    assert [(item.name, item.why) for item in left_instances(rounds)] == [("i-2", "it is protected")]
    assert set(ended_instances(rounds)) == {"i-1"}


def test_an_instance_that_never_ends_is_given_up_after_some_time() -> None:
    rounds, at = run(Fleet({"i-1": -1}))
    assert at - NOW >= STUCK
    assert "did not end it within 15 minutes" in left_instances(rounds)[0].why


def test_what_a_survey_saw_and_no_round_sees_has_ended() -> None:
    """A node drained meanwhile, or a worker died after it had asked EC2."""
    rounds = begin_rounds([ClusterInstance(id="i-1", state="running")])
    assert ended_instances(after(rounds, TerminateRoundResult(), NOW)) == {"i-1": NOW}


def test_a_worker_that_buys_again_and_again_is_named() -> None:
    rounds, now = Rounds(), NOW
    for number in range(MAX_ROUNDS):
        alive = [ClusterInstance(id=f"i-{number}", state="running")]
        rounds = after(rounds, TerminateRoundResult(alive=alive, alive_count=1), now)
        now += timedelta(seconds=5)
    assert pause_before_next(rounds, now) is None
    assert [item.why for item in left_instances(rounds)] == [BOUGHT_AGAIN]
