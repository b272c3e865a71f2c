"""The switch from one controller of nodes to another, as a state machine: what to do next, from what is observed.

Both directions are the same: a *leaver* that leads now, and a *successor* that is to lead. Only the order differs.
Tenon stands by while Karpenter leads, so a takeover starts Tenon first. Karpenter knows no standing by, so a handback
starts Karpenter only when Tenon has ended and its marks are removed. A Karpenter of v1beta1 is stopped before anything
of Tenon's is installed, because the two conversions of its objects do not mix (``stop_first``).

The guide carries a step out first, and then remembers the phase that follows. So a guide that is killed between
the two finds the step done and decides it once more, and each step must be safe to repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tenon.sentences import first_few, lasting

SHOWN = 5
"""How many names a sentence lists at most."""
RETURNS_WITHIN = timedelta(minutes=5)
"""How long the way back may take at least, however impatient the user is with the successor."""


class Direction(StrEnum):
    """Who hands the cluster to whom."""

    TAKEOVER = "takeover"
    """From Karpenter to Tenon."""
    HANDBACK = "handback"
    """From Tenon to Karpenter."""


class SwitchPhase(StrEnum):
    """How far a switch is."""

    BEGUN = "begun"
    """What the cluster has is recorded, and the leaver still leads."""
    STOPPING = "stopping"
    """The leaver is scaled to 0."""
    INSTALLING = "installing"
    """The leaver, a Karpenter of v1beta1, is gone, and Tenon's CRDs replace its own. Some may have done so already."""
    STARTING = "starting"
    """The leaver is gone, and the successor is to lead."""
    RETURNING = "returning"
    """The successor did not become healthy, so the leaver is to lead again."""
    DONE = "done"
    RETURNED = "returned"

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self in (SwitchPhase.DONE, SwitchPhase.RETURNED)


class StepKind(StrEnum):
    """What to do next."""

    WAIT = "wait"
    START_SUCCESSOR = "start the successor"
    STOP_LEAVER = "stop the leaver"
    CLEAR = "clear"
    """End the leaver's workflows, and remove its marks from objects. Only a handback has this step."""
    INSTALL = "install"
    """Replace Karpenter's CRDs of v1beta1 by Tenon's. From there on, only Tenon can lead."""
    CONTINUE = "continue"
    """Only remember the next phase."""
    FINISH = "finish"
    STOP_SUCCESSOR = "stop the successor"
    START_LEAVER = "start the leaver"
    STUCK = "stuck"
    """There is no way back, or it does not succeed either: a person must look."""


@dataclass(frozen=True, slots=True)
class ControllerDeployment:
    """The Deployment of a controller, and whether it leads."""

    name: str
    """What people call it: Karpenter, Tenon."""
    replicas: int
    """Of the Deployment's spec."""
    pods: int
    """Pods that exist, also those that are ending."""
    available: int
    holds_lease: bool
    """It may lead: its Lease names it and has not expired."""
    renews_lease: bool
    """It leads: it renewed its Lease while the guide watched."""


@dataclass(frozen=True, slots=True)
class SwitchObservation:
    """What a look at the cluster shows."""

    now: datetime
    leaver: ControllerDeployment
    successor: ControllerDeployment
    unsettled: Sequence[str] = ()
    """Nodes in the middle of their lives, a sentence each."""
    behind: Sequence[str] = ()
    """What the successor has not taken over yet, a sentence each."""
    one_lease: bool = False
    """Both have the same Lease, because it is in one namespace: neither can take it while the other renews it."""


@dataclass(frozen=True, slots=True)
class Switch:
    """What is remembered of a switch between two steps, and between two runs of the guide."""

    direction: Direction
    leaver_replicas: int
    """To which the way back scales the leaver."""
    successor_replicas: int
    """To which the successor is scaled if it has none."""
    settle: timedelta
    """How long to wait for nodes in the middle of their lives."""
    timeout: timedelta
    """How long the successor may take to lead and to be healthy."""
    began: datetime
    since: datetime
    """When the phase began, or this run of the guide, whichever is later."""
    stop_first: bool = False
    """Karpenter stores objects of v1beta1, so it stops before Tenon is installed, and there is no way back."""
    phase: SwitchPhase = SwitchPhase.BEGUN
    why_back: str = ""
    """Why the leaver is to lead again; empty as long as it is not."""

    def entered(self, phase: SwitchPhase, now: datetime, why_back: str = "") -> Switch:
        """Return the switch in its next phase."""
        return replace(self, phase=phase, since=now, why_back=why_back or self.why_back)

    def resumed(self, now: datetime) -> Switch:
        """Return the switch as a new run of the guide takes it up: time in which no one watched does not count."""
        return replace(self, since=now)


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """The next step, and the phase to remember once it is done."""

    kind: StepKind
    sentence: str
    then: SwitchPhase | None = None
    """None: the phase stays."""
    why_back: str = ""


def decide(switch: Switch, observed: SwitchObservation) -> SwitchStep:
    """Decide the next step of a switch that has not ended."""
    match switch.phase:
        case SwitchPhase.BEGUN:
            return _before(switch, observed)
        case SwitchPhase.STOPPING:
            return _stopping(switch, observed)
        case SwitchPhase.INSTALLING:
            return _installing(switch, observed)
        case SwitchPhase.STARTING:
            return _starting(switch, observed)
        case SwitchPhase.RETURNING:
            return _returning(switch, observed)
    return SwitchStep(StepKind.FINISH, "Nothing is left to do.", switch.phase)


def waiting(switch: Switch, now: datetime, missing: str) -> SwitchStep:
    """Wait for what is missing, or for a failure to pass, and go back once that has taken too long."""
    if now - switch.since >= switch.timeout:
        return _back(f"{missing} after {lasting(switch.timeout)}", switch)
    return SwitchStep(StepKind.WAIT, f"Waiting: {missing}.")


def _before(switch: Switch, observed: SwitchObservation) -> SwitchStep:
    leaver, successor = observed.leaver, observed.successor
    if not leaver.replicas:  # this step was done, and the guide was killed before it remembered that
        return SwitchStep(StepKind.STOP_LEAVER, f"{leaver.name} is scaled to 0.", SwitchPhase.STOPPING)
    if switch.direction is Direction.TAKEOVER and not switch.stop_first:
        if not successor.replicas:
            return SwitchStep(
                StepKind.START_SUCCESSOR, f"Start {successor.name}, which stands by while {leaver.name} leads."
            )
        if not successor.available:
            sentence = f"{successor.name} has no available pod"
            return waiting(switch, observed.now, sentence)
    if observed.unsettled and observed.now - switch.since < switch.settle:
        remaining = lasting(switch.settle - (observed.now - switch.since))
        sentence = f"Waiting up to {remaining} for nodes in the middle of their lives: {_few(observed.unsettled)}."
        return SwitchStep(StepKind.WAIT, sentence)
    going_on = f" Under {successor.name} this goes on: {_few(observed.unsettled)}." if observed.unsettled else ""
    return SwitchStep(StepKind.STOP_LEAVER, f"Scale {leaver.name} to 0.{going_on}", SwitchPhase.STOPPING)


def _stopping(switch: Switch, observed: SwitchObservation) -> SwitchStep:
    leaver, successor = observed.leaver, observed.successor
    if leaver.replicas:
        return _back(_scaled_up(leaver), switch)
    if leaver.pods:
        sentence = f"{leaver.name} still has {leaver.pods} of its pods"
        return waiting(switch, observed.now, sentence)
    if leaver.holds_lease:
        return waiting(switch, observed.now, f"the Lease of {leaver.name} has not expired")
    if switch.direction is Direction.HANDBACK:
        return SwitchStep(
            StepKind.CLEAR, f"End {leaver.name}'s workflows and remove its marks from objects.", SwitchPhase.STARTING
        )
    if switch.stop_first:
        return SwitchStep(StepKind.CONTINUE, f"{leaver.name} has stopped.", SwitchPhase.INSTALLING)
    return SwitchStep(
        StepKind.CONTINUE, f"{leaver.name} has stopped. {successor.name} is to lead.", SwitchPhase.STARTING
    )


def _installing(switch: Switch, observed: SwitchObservation) -> SwitchStep:
    if observed.leaver.replicas:
        return _back(_scaled_up(observed.leaver), switch)
    return SwitchStep(StepKind.INSTALL, f"Install {observed.successor.name}'s CRDs.", SwitchPhase.STARTING)


def _starting(switch: Switch, observed: SwitchObservation) -> SwitchStep:
    leaver, successor = observed.leaver, observed.successor
    if leaver.replicas:
        return _back(_scaled_up(leaver), switch)
    if not successor.replicas:
        return SwitchStep(StepKind.START_SUCCESSOR, f"Start {successor.name}.")
    if not successor.available:
        missing = f"{successor.name} has no available pod"
    elif not successor.renews_lease:
        missing = f"{successor.name} does not lead yet"
    elif observed.behind:
        missing = f"{successor.name} leads, and is not through yet: {_few(observed.behind)}"
    else:
        return SwitchStep(StepKind.FINISH, f"{successor.name} leads and is healthy.", SwitchPhase.DONE)
    return waiting(switch, observed.now, missing)


def _returning(switch: Switch, observed: SwitchObservation) -> SwitchStep:
    leaver, successor = observed.leaver, observed.successor
    is_handback = switch.direction is Direction.HANDBACK
    is_in_the_way = is_handback or (observed.one_lease and successor.holds_lease)
    if is_in_the_way and successor.replicas:
        return SwitchStep(StepKind.STOP_SUCCESSOR, f"Scale {successor.name} to 0 again.")
    if is_in_the_way and successor.pods:
        missing = f"{successor.name} still has {successor.pods} of its pods"
    elif not leaver.replicas:
        return SwitchStep(StepKind.START_LEAVER, f"Scale {leaver.name} to {switch.leaver_replicas} again.")
    elif not (leaver.available and leaver.renews_lease):
        missing = f"{leaver.name} does not lead again yet"
    elif observed.one_lease and not (is_handback or switch.stop_first or successor.replicas):
        return SwitchStep(
            StepKind.START_SUCCESSOR, f"Start {successor.name} again, which stands by while {leaver.name} leads."
        )
    else:
        return SwitchStep(StepKind.FINISH, f"{leaver.name} leads again.", SwitchPhase.RETURNED)
    within = max(switch.timeout, RETURNS_WITHIN)
    if observed.now - switch.since >= within:
        sentence = f"{missing}, {lasting(within)} after it was asked to: look at its pods, then run this again."
        return SwitchStep(StepKind.STUCK, sentence)
    return SwitchStep(StepKind.WAIT, f"Waiting: {missing}.")


def _back(why: str, switch: Switch) -> SwitchStep:
    if switch.stop_first and switch.phase in (SwitchPhase.INSTALLING, SwitchPhase.STARTING):
        sentence = f"{why}. Karpenter cannot read objects that Tenon's CRDs store: correct this, then run this again."
        return SwitchStep(StepKind.STUCK, sentence)
    return SwitchStep(StepKind.CONTINUE, f"Going back: {why}.", SwitchPhase.RETURNING, why)


def _scaled_up(controller: ControllerDeployment) -> str:
    return (
        f"the Deployment of {controller.name} was scaled to {controller.replicas} by somebody else, such as Argo CD, "
        "Flux or an autoscaler, which must be suspended first"
    )


def _few(sentences: Sequence[str]) -> str:
    return first_few([sentence.rstrip(".") for sentence in sentences], SHOWN)
