"""Answers about a pod: where it is, when and for which node it was planned, why it is pending, what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tenon.kube.pool_reasons import NoPlace
from tenon.money import per_hour
from tenon.record.entries import CommandEntry, Entry, PlanEntry
from tenon.record.why.answer import Answer, FactSource, Line, clock, sections_of
from tenon.record.why.mentions import mentions_pod
from tenon.record.why.node_life import NodeEvent, NodeLife
from tenon.scheduling.explanation.waiting import WaitsFor, beginning, explain_command

MAX_PLANS = 10
MAX_REASON = 300
WHERE = "Where is it?"
PLANNED = "When was it planned, and for which node?"
PENDING = "Why is it pending?"
WAITS = "What does it wait for?"
SCHEDULED_EVENTS = ("Nominated", "FailedScheduling")
"""The reasons of Tenon's events about pods."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What Kubernetes says about a pod that exists."""

    phase: str
    node: str = ""
    created: datetime | None = None
    bound: datetime | None = None
    """When it got its node; None if it has none."""
    scheduler_message: str = ""
    """The message of its condition PodScheduled."""
    gated: bool = False
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class PodSources:
    """All that is known of one pod."""

    key: str
    """``namespace/name``."""
    pod: PodFacts | None = None
    entries: Sequence[Entry] = ()
    """The plans and commands that decided about it, and what the record has of its NodeClaims."""
    events: Sequence[NodeEvent] = ()
    """Tenon's events about it."""
    claim: str = ""
    """The NodeClaim that was created for it, as NodeClaims say."""
    lives: Mapping[str, NodeLife] = field(default_factory=dict)
    """By NodeClaim, what the workflows of its nodes say."""
    waits: Sequence[str] = ()
    """What the provisioner's workflow says about it: sentences."""
    simulated_place: str = ""
    """The node that a simulation would buy or use for it; empty if there is none, and without a simulation."""
    simulated_reason: NoPlace | None = None
    """Why a simulation finds no place for it; None if there is one, and without a simulation."""
    kubernetes_answered: bool = True
    """Otherwise it is not known whether the pod exists."""


def why_pod(sources: PodSources) -> Answer:
    """Answer all questions about a pod."""
    pod = _Pod(sources)
    questions = (
        (WHERE, list(pod.where())),
        (PLANNED, list(pod.plans())),
        (PENDING, list(pod.pending())),
        (WAITS, list(pod.waits())),
    )
    sections = sections_of(questions)
    hints = [f"What each NodePool lacks by now: {explain_command(sources.key)}"] if pod.is_pending else []
    return Answer("pod", sources.key, pod.headline() if sections else "", sections, hints)


def claims_of(key: str, entries: Sequence[Entry]) -> list[str]:
    """Return the NodeClaims that were created for the pod, the newest first."""
    claims = []
    for entry in sorted(entries, key=lambda entry: entry.at, reverse=True):
        if isinstance(entry, PlanEntry | CommandEntry):
            purchases = entry.purchases if isinstance(entry, PlanEntry) else entry.replacements
            claims += [purchase.claim for purchase in purchases if key in purchase.pods]
    return claims


def needs_simulation(sources: PodSources) -> bool:
    """Whether the pod is pending and nothing says why: Tenon was not asked yet, does not run, or may not write."""
    pod = sources.pod
    if pod is None or pod.node or pod.phase != "Pending" or pod.gated or sources.claim:
        return False
    has_event = any(event.reason in SCHEDULED_EVENTS for event in sources.events)
    return not has_event and not any(mentions_pod(entry, sources.key) for entry in sources.entries)


class _Pod:
    def __init__(self, sources: PodSources) -> None:
        self._sources = sources
        self._entries = sorted(sources.entries, key=lambda entry: entry.at)

    @property
    def is_pending(self) -> bool:
        """Whether it exists and waits for a node."""
        pod = self._sources.pod
        return pod is not None and not pod.node and pod.phase == "Pending"

    def headline(self) -> str:
        """Where it is, in one sentence."""
        pod, key = self._sources.pod, self._sources.key
        if pod is None and not self._sources.kubernetes_answered:
            return f"Kubernetes did not answer, so it is not known whether pod {key} exists"
        if pod is None:
            return f"Pod {key} does not exist any more"
        if pod.node:
            return f"Pod {key} is {pod.phase} on {pod.node}" + (" and is being deleted" if pod.deleting else "")
        since = f" since {clock(pod.created)}" if pod.created is not None else ""
        return f"Pod {key} is {pod.phase}{since}, without a node"

    def where(self) -> Iterator[Line]:
        """What Kubernetes says."""
        pod = self._sources.pod
        if pod is not None:
            if pod.created is not None:
                yield Line("created", FactSource.KUBERNETES, pod.created)
            if pod.node and pod.bound is not None:
                yield Line(f"bound to {pod.node}", FactSource.KUBERNETES, pod.bound)
            place = f"on {pod.node}" if pod.node else "without a node"
            yield Line(f"now {pod.phase}, {place}", FactSource.KUBERNETES)

    def plans(self) -> Iterator[Line]:
        """Its last places in plans and commands."""
        lines = [line for entry in self._entries for line in _plan_lines(entry, self._sources.key)]
        yield from lines[-MAX_PLANS:]
        if not lines and self._sources.claim:
            yield Line(f"NodeClaim {self._sources.claim} was created for it", FactSource.KUBERNETES)
        if not lines:
            nominations = [event for event in self._sources.events if event.reason == "Nominated"]
            yield from (Line(event.message, FactSource.KUBERNETES, event.at) for event in nominations[-1:])

    def pending(self) -> Iterator[Line]:
        """Why it has no node: the newest of what Tenon said, for each NodePool."""
        if not self.is_pending:
            return
        pod = self._sources.pod
        assert pod is not None
        if pod.gated:
            yield Line(
                "it has scheduling gates, so that nothing places it before they are removed", FactSource.KUBERNETES
            )
        failures = [event for event in self._sources.events if event.reason == "FailedScheduling"]
        event = max(failures, key=lambda failure: failure.at, default=None)
        plan = self._last_plan()
        planned_reason = plan.unschedulable.get(self._sources.key) if plan is not None else None
        simulated_reason = self._sources.simulated_reason
        if event is not None and (plan is None or event.at >= plan.at or planned_reason is None):
            if event.no_place is not None:
                yield from self._reason(event.no_place, FactSource.KUBERNETES, event.at)
            else:
                yield Line(event.message, FactSource.KUBERNETES, event.at)
        elif plan is not None and planned_reason is not None:
            yield from self._reason(planned_reason, FactSource.RECORD, plan.at)
        elif simulated_reason is not None:
            yield from self._reason(simulated_reason, FactSource.SIMULATION)
        if pod.scheduler_message:
            yield Line(f"kube-scheduler: {pod.scheduler_message}", FactSource.KUBERNETES)

    def _reason(self, reason: NoPlace, source: FactSource, at: datetime | None = None) -> Iterator[Line]:
        """The beginning of the sentence that no node is bought for the pod, and below it a line for each NodePool.

        Events and the record shorten long reasons.
        """
        yield Line(f"{beginning(WaitsFor.NOTHING_FITS)}:", source, at)
        yield from (Line(text, source, at) for text in reason.sentences)
        if reason.is_shortened:
            yield Line(f"the reason is shortened: `{explain_command(self._sources.key)}` says all of it now", source)

    def _last_plan(self) -> PlanEntry | None:
        plans = [entry for entry in self._entries if isinstance(entry, PlanEntry)]
        return next((entry for entry in reversed(plans) if mentions_pod(entry, self._sources.key)), None)

    def waits(self) -> Iterator[Line]:
        """What must happen before it runs."""
        if not self.is_pending:
            return
        yield from (Line(text, FactSource.TEMPORAL) for text in self._sources.waits)
        claims = [self._sources.claim, *claims_of(self._sources.key, self._entries)]
        for claim in dict.fromkeys(filter(None, claims)):
            life = self._sources.lives.get(claim)
            if life is None or life.stage == "ended":
                continue
            last = life.timeline[-1][1] if life.timeline else ""
            text = f"NodeClaim {claim} is {life.stage}" + (f": {life.blocked or last}" if life.blocked or last else "")
            yield Line(text, FactSource.TEMPORAL)
        if self._sources.simulated_place:
            yield Line(f"the next plan: {self._sources.simulated_place}", FactSource.SIMULATION)


def _plan_lines(entry: Entry, key: str) -> Iterator[Line]:
    if isinstance(entry, PlanEntry):
        for purchase in entry.purchases:
            if key in purchase.pods:
                node = f"{purchase.instance_type} of NodePool {purchase.pool} at {per_hour(purchase.price)}"
                text = f"batch {entry.batch} created NodeClaim {purchase.claim} for it: {node}"
                yield Line(text, FactSource.RECORD, entry.at)
        for node, pods in entry.on_existing.items():
            if key in pods:
                yield Line(f"batch {entry.batch} placed it on {node}, which existed", FactSource.RECORD, entry.at)
        if key in entry.unschedulable:
            why = entry.unschedulable[key].shortened(MAX_REASON)
            yield Line(f"batch {entry.batch} had no place for it: {why}", FactSource.RECORD, entry.at)
    elif isinstance(entry, CommandEntry):
        for purchase in entry.replacements:
            if key in purchase.pods:
                text = f"command {entry.command} ({entry.reason}) moves it to NodeClaim {purchase.claim}"
                yield Line(text, FactSource.RECORD, entry.at)
