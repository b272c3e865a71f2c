"""The switch between controllers, in a simulated world in which its guide is killed and in which things go wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.migration.switch import (
    ControllerDeployment,
    Direction,
    StepKind,
    Switch,
    SwitchObservation,
    SwitchPhase,
    SwitchStep,
    decide,
)

BEGAN = datetime(2026, 5, 4, 12, tzinfo=UTC)
SETTLE, TIMEOUT = timedelta(minutes=1), timedelta(minutes=5)
LOOK = timedelta(seconds=10)


def controller(name: str, replicas: int = 0, *, pods: int | None = None, leads: bool = False) -> ControllerDeployment:
    pods = replicas if pods is None else pods
    return ControllerDeployment(name, replicas, pods, pods, holds_lease=leads, renews_lease=leads)


def switch(
    direction: Direction = Direction.TAKEOVER, phase: SwitchPhase = SwitchPhase.BEGUN, *, stop_first: bool = False
) -> Switch:
    return Switch(direction, 2, 2, SETTLE, TIMEOUT, BEGAN, BEGAN, stop_first, phase)


def observed(
    leaver: ControllerDeployment,
    successor: ControllerDeployment,
    after: timedelta = timedelta(),
    unsettled: Sequence[str] = (),
    behind: Sequence[str] = (),
) -> SwitchObservation:
    return SwitchObservation(BEGAN + after, leaver, successor, unsettled, behind)


KARPENTER_LEADS = controller("Karpenter", 2, leads=True)
TENON_STANDS_BY = controller("Tenon", 2)


def test_karpenter_is_not_stopped_before_tenon_stands_by() -> None:
    assert decide(switch(), observed(KARPENTER_LEADS, controller("Tenon"))).kind is StepKind.START_SUCCESSOR
    starting = controller("Tenon", 2, pods=0)
    assert decide(switch(), observed(KARPENTER_LEADS, starting)).kind is StepKind.WAIT
    late = decide(switch(), observed(KARPENTER_LEADS, starting, TIMEOUT))
    assert (late.kind, late.then) == (StepKind.CONTINUE, SwitchPhase.RETURNING)


def test_nodes_that_are_starting_are_waited_for_only_so_long() -> None:
    unsettled = ["NodeClaim a is not launched yet"]
    step = decide(switch(), observed(KARPENTER_LEADS, TENON_STANDS_BY, unsettled=unsettled))
    assert step.kind is StepKind.WAIT
    assert "NodeClaim a" in step.sentence
    step = decide(switch(), observed(KARPENTER_LEADS, TENON_STANDS_BY, SETTLE, unsettled=unsettled))
    assert (step.kind, step.then) == (StepKind.STOP_LEAVER, SwitchPhase.STOPPING)
    assert "NodeClaim a" in step.sentence, "the user reads what goes on under Tenon"


def test_the_marks_of_tenon_are_removed_only_once_it_has_ended() -> None:
    stopping = switch(Direction.HANDBACK, SwitchPhase.STOPPING)
    karpenter = controller("Karpenter")
    assert decide(stopping, observed(controller("Tenon", 0, pods=1), karpenter)).kind is StepKind.WAIT
    holding = controller("Tenon", leads=True)
    assert decide(stopping, observed(holding, karpenter)).kind is StepKind.WAIT, "its Lease is not over"
    assert decide(stopping, observed(controller("Tenon"), karpenter)).kind is StepKind.CLEAR


def test_somebody_who_scales_the_leaver_up_again_ends_the_switch() -> None:
    for phase in (SwitchPhase.STOPPING, SwitchPhase.STARTING):
        step = decide(switch(phase=phase), observed(controller("Karpenter", 2), TENON_STANDS_BY))
        assert step.then is SwitchPhase.RETURNING
        assert "Argo CD" in step.why_back


def test_it_is_done_only_when_tenon_has_taken_every_node_over() -> None:
    starting, stopped = switch(phase=SwitchPhase.STARTING), controller("Karpenter")
    leads = controller("Tenon", 2, leads=True)
    behind = ["NodePool a is not Ready: x"]
    assert decide(starting, observed(stopped, leads, behind=behind)).kind is StepKind.WAIT
    late = decide(starting, observed(stopped, leads, TIMEOUT, behind=behind))
    assert late.then is SwitchPhase.RETURNING
    assert "NodePool a is not Ready" in late.why_back
    assert decide(starting, observed(stopped, leads, TIMEOUT)).then is SwitchPhase.DONE, "late is better than back"


def test_the_way_back_has_its_own_patience_and_then_a_person_must_look() -> None:
    returning = replace(switch(phase=SwitchPhase.RETURNING), timeout=timedelta(seconds=20))
    karpenter, tenon = controller("Karpenter", 2), controller("Tenon", 2)
    assert decide(returning, observed(controller("Karpenter"), tenon)).kind is StepKind.START_LEAVER
    assert decide(returning, observed(karpenter, tenon, timedelta(minutes=2))).kind is StepKind.WAIT
    assert decide(returning, observed(karpenter, tenon, timedelta(minutes=5))).kind is StepKind.STUCK


def test_in_one_namespace_tenon_gives_the_lease_up_before_karpenter_can_lead_again() -> None:
    returning, starting = switch(phase=SwitchPhase.RETURNING), controller("Karpenter", 2)

    def step(leaver: ControllerDeployment, successor: ControllerDeployment) -> SwitchStep:
        return decide(returning, replace(observed(leaver, successor), one_lease=True))

    assert step(starting, controller("Tenon", 2, leads=True)).kind is StepKind.STOP_SUCCESSOR
    assert step(starting, controller("Tenon", 0, pods=1, leads=True)).kind is StepKind.WAIT
    assert step(controller("Karpenter"), controller("Tenon")).kind is StepKind.START_LEAVER
    assert step(starting, TENON_STANDS_BY).kind is StepKind.WAIT, "it does not keep Karpenter from leading"
    assert step(KARPENTER_LEADS, controller("Tenon")).kind is StepKind.START_SUCCESSOR, "it stands by again"
    assert step(KARPENTER_LEADS, TENON_STANDS_BY).then is SwitchPhase.RETURNED


def test_from_v1beta1_tenon_is_installed_after_karpenter_and_there_is_no_way_back() -> None:
    old = switch(stop_first=True)
    assert decide(old, observed(KARPENTER_LEADS, controller("Tenon"))).kind is StepKind.STOP_LEAVER
    stopping = replace(old, phase=SwitchPhase.STOPPING)
    step = decide(stopping, observed(controller("Karpenter"), controller("Tenon")))
    assert (step.kind, step.then) == (StepKind.CONTINUE, SwitchPhase.INSTALLING), (
        "it is remembered before a CRD is replaced"
    )
    installing = replace(old, phase=SwitchPhase.INSTALLING)
    assert decide(installing, observed(controller("Karpenter"), controller("Tenon"))).kind is StepKind.INSTALL
    assert decide(installing, observed(KARPENTER_LEADS, controller("Tenon"))).kind is StepKind.STUCK
    starting = replace(old, phase=SwitchPhase.STARTING)
    assert decide(starting, observed(controller("Karpenter"), controller("Tenon"))).kind is StepKind.START_SUCCESSOR
    assert decide(starting, observed(controller("Karpenter"), TENON_STANDS_BY, TIMEOUT)).kind is StepKind.STUCK


@dataclass
class World:
    """Two Deployments, whose pods come and go with delays, and one Lease."""

    chance: random.Random
    successor_works: bool
    direction: Direction
    one_lease: bool = False
    """Who has the Lease keeps it, and a successor that does not work is one that leads and never gets through."""
    now: datetime = BEGAN
    replicas: dict[str, int] = field(default_factory=lambda: {"leaver": 2, "successor": 0})
    pods: dict[str, int] = field(default_factory=lambda: {"leaver": 2, "successor": 0})
    holder: str = "leaver"
    cleared_while_led: bool = False
    marks: bool = True

    def look(self) -> SwitchObservation:
        behind = [] if self.successor_works else ["NodePool a is not Ready"]
        controllers = self._controller("leaver"), self._controller("successor")
        return SwitchObservation(self.now, *controllers, behind=behind, one_lease=self.one_lease)

    def _controller(self, name: str) -> ControllerDeployment:
        leads = self.holder == name
        return ControllerDeployment(name, self.replicas[name], self.pods[name], self.pods[name], leads, leads)

    def pass_time(self) -> None:
        self.now += LOOK
        for name in ("leaver", "successor"):
            if self.chance.random() < 0.5:
                self.pods[name] = self.replicas[name]
            if not self.pods[name] and self.holder == name and self.chance.random() < 0.5:
                self.holder = ""
        works = {"leaver": True, "successor": self.successor_works or self.one_lease}
        if not self.holder:
            ready = [name for name in ("leaver", "successor") if self.pods[name] and works[name]]
            self.holder = ready[0] if ready and self.chance.random() < 0.5 else ""
        # Tenon stands by as soon as a Karpenter is there, also if it leads.
        karpenter = "leaver" if self.direction is Direction.TAKEOVER else "successor"
        if not self.one_lease and self.pods[karpenter] and works[karpenter] and self.chance.random() < 0.5:
            self.holder = karpenter

    def do(self, step: SwitchStep) -> None:
        match step.kind:
            case StepKind.START_SUCCESSOR:
                self.replicas["successor"] = 2
            case StepKind.STOP_SUCCESSOR:
                self.replicas["successor"] = 0
            case StepKind.STOP_LEAVER:
                self.replicas["leaver"] = 0
            case StepKind.START_LEAVER:
                self.replicas["leaver"] = 2
            case StepKind.CLEAR:
                self.cleared_while_led |= self.holder == "leaver" or bool(self.pods["leaver"])
                self.marks = False


@pytest.mark.parametrize("direction", Direction)
@given(seed=st.integers(0, 10**9), works=st.booleans(), kills=st.integers(0, 12), one_lease=st.booleans())
@settings(max_examples=300, deadline=None)
def test_it_ends_with_one_leader_however_often_its_guide_is_killed(
    direction: Direction, seed: int, works: bool, kills: int, one_lease: bool
) -> None:
    """A killed guide has done its step or not, and has remembered it or not; the next one goes on."""
    world = World(random.Random(seed), works, direction, one_lease)
    remembered = switch(direction)
    for _ in range(2000):
        if remembered.phase.ended:
            break
        step = decide(remembered, world.look())
        killed = kills > 0 and world.chance.random() < 0.3
        kills -= killed
        if not killed or world.chance.random() < 0.5:
            world.do(step)
            if step.then is not None and not killed:
                remembered = remembered.entered(step.then, world.now, step.why_back)
        if killed:
            remembered = remembered.resumed(world.now)
        world.pass_time()
    else:
        pytest.fail(f"it does not end: {remembered}")
    assert not world.cleared_while_led
    if remembered.phase is SwitchPhase.DONE:
        assert works
        assert world.replicas["leaver"] == 0
        assert world.holder == "successor"
        assert world.marks is (direction is Direction.TAKEOVER)
    else:
        assert remembered.why_back
        assert world.replicas == {"leaver": 2, "successor": 2 if direction is Direction.TAKEOVER else 0}
        assert world.holder == "leaver"


@given(seed=st.integers(0, 10**9))
@settings(max_examples=200, deadline=None)
def test_a_step_that_is_repeated_changes_nothing_more(seed: int) -> None:
    world = World(random.Random(seed), True, Direction.HANDBACK)
    remembered = switch(Direction.HANDBACK)
    while not remembered.phase.ended:
        step = decide(remembered, world.look())
        world.do(step)
        before = (dict(world.replicas), world.marks)
        world.do(step)
        assert (world.replicas, world.marks) == before
        if step.then is not None:
            remembered = remembered.entered(step.then, world.now, step.why_back)
        world.pass_time()
