"""Finds the NodeClaims that replace a node which left before its replacement started, and says what became of them.

Ordinary provisioning makes these NodeClaims, and knows of no command. The command marks those that it takes for its
replacements, so that two commands never count the same one, and no other command removes one meanwhile.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from temporalio import activity

from activities import loggers, metrics
from activities.disruption.commands import waits_for
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from activities.node.nodes import pods_on
from tenon.apis import labels
from tenon.apis.managed import manages_claim
from tenon.apis.reasons import snake_case
from tenon.disruption.commands.awaited_replacements import ReplacementOutcome
from tenon.disruption.history.arrivals import workload_mark
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.structs import Object
from tenon.kube.timestamps import parse_instant
from tenon.messages.awaited_replacements import (
    FindReplacementsInput,
    FoundReplacements,
    SettleReplacementsInput,
)
from tenon.messages.base import ActivityName, ClaimRef
from tenon.messages.disruption import DisruptionCommand, StepResult
from tenon.messages.terminate_first import IntendedReplacement
from tenon.sentences import counted

log = loggers.DISRUPTION

EVENTS = {
    ReplacementOutcome.REPLACED: EventReason.REPLACEMENT_RUNNING,
    ReplacementOutcome.UNNEEDED: EventReason.REPLACEMENT_NOT_NEEDED,
    ReplacementOutcome.GIVEN_UP: EventReason.REPLACEMENT_MISSING,
    ReplacementOutcome.CANCELLED: EventReason.REPLACEMENT_NOT_AWAITED,
}
"""The event on the NodePool when a command no longer waits."""


class AwaitedReplacementActivities:
    """Both may be repeated."""

    def __init__(self, kube: Kube, recorder: EventPublisher) -> None:
        self._kube = kube
        self._recorder = recorder

    def all(self) -> Sequence[Callable[..., Any]]:
        """All activities."""
        return [self.find, self.settle]

    @activity.defn(name=ActivityName.FIND_REPLACEMENTS)
    async def find(self, find_input: FindReplacementsInput) -> FoundReplacements:
        """Look once for the replacements, and mark those that no command has."""
        command = find_input.command
        leaving = [
            candidate.claim
            for candidate in command.candidates
            if await read_claim(
                self._kube, ClaimRef(cluster=find_input.cluster, name=candidate.claim, uid=candidate.uid)
            )
        ]
        marked: list[ClaimRecord] = []
        for intended, count in _intended(command).items():
            activity.heartbeat()
            marked += await self._marked(intended, count, command, find_input.since)
        waiting_pods = await self._waiting_pods(command)
        replacements = FoundReplacements(
            leaving=leaving,
            running=sorted(claim.name for claim in marked if claim.initialized),
            starting={claim.name: waits_for(claim) for claim in marked if not claim.initialized},
            waiting_pods=waiting_pods,
        )
        if waiting_pods or not (leaving or replacements.running):
            await self._say_what_waits(command, replacements)
        return replacements

    async def _marked(
        self, intended: tuple[str, str], count: int, command: DisruptionCommand, since: datetime
    ) -> list[ClaimRecord]:
        """The NodeClaims that are marked as these replacements, after more of them were marked if there are too few."""
        pool, reservation = intended
        selector = f"{labels.RESERVATION_ID}={reservation}" if reservation else f"{labels.NODEPOOL}={pool}"
        bodies = await self._kube.list(NODECLAIMS, label_selector=selector)
        old = {candidate.claim for candidate in command.candidates}
        claims = [
            claim
            for body in bodies
            if manages_claim(body) and not (claim := ClaimRecord.of(body)).deleting and claim.name not in old
        ]
        marked = [claim for claim in claims if claim.replacement_for == command.id]
        free = [claim for claim in claims if not claim.replacement_for and _is_created_since(claim, since)]
        for claim in sorted(free, key=lambda claim: (not claim.initialized, claim.name)):
            if len(marked) >= count:
                break
            if await self._mark(claim, command):
                marked.append(claim)
        return marked

    async def _mark(self, claim: ClaimRecord, command: DisruptionCommand) -> bool:
        def compute(body: Object) -> dict[str, Any]:
            if object_json.annotations(body).get(labels.REPLACEMENT_FOR):
                return {}
            return {"metadata": {"annotations": {labels.REPLACEMENT_FOR: command.id}}}

        body = await change(self._kube, NODECLAIMS, claim.name, compute, uid=claim.uid)
        return body is not None and object_json.annotations(body).get(labels.REPLACEMENT_FOR) == command.id

    async def _waiting_pods(self, command: DisruptionCommand) -> int:
        """How many pods of the workloads that left have no node."""
        assert command.terminate_first is not None
        workloads = {mark for intended in command.terminate_first.intended for mark in intended.workloads}
        if not workloads:
            return 0
        unbound = await pods_on(self._kube, "", latest=False)
        return sum(
            not (record.terminal or record.deleting) and workload_mark(record.pod) in workloads for record in unbound
        )

    async def _say_what_waits(self, command: DisruptionCommand, replacements: FoundReplacements) -> None:
        pods = f": {counted(replacements.waiting_pods, 'pod')} without a node" if replacements.waiting_pods else ""
        for candidate in command.candidates:
            text = f"NodeClaim {candidate.claim} left before its replacement, which does not run yet{pods}"
            await self._publish(candidate.pool, EventReason.AWAITING_REPLACEMENT, text)

    @activity.defn(name=ActivityName.SETTLE_REPLACEMENTS)
    async def settle(self, settle_input: SettleReplacementsInput) -> StepResult:
        """Free the marked NodeClaims, and say what became of the replacement: in an event, a metric and the log."""
        command, outcome = settle_input.command, ReplacementOutcome(settle_input.outcome)
        for name in settle_input.claims:
            body = await self._kube.get(NODECLAIMS, name)
            if body is not None:
                await self._free(ClaimRecord.of(body), command)
        is_missing = outcome is ReplacementOutcome.GIVEN_UP
        for candidate in command.candidates:
            series = (candidate.pool, snake_case(command.reason), outcome.value)
            metrics.REPLACEMENT_WAIT_SECONDS.labels(*series).observe(settle_input.seconds)
            text = f"NodeClaim {candidate.claim} left before its replacement: {settle_input.text}"
            await self._publish(candidate.pool, EVENTS[outcome], text)
        log.log(
            logging.WARNING if is_missing else logging.INFO,
            "A disruption command no longer waits for the replacement of a node that left first",
            extra={
                "command": command.id,
                "nodeclaims": [candidate.claim for candidate in command.candidates],
                "replacements": settle_input.claims,
                "outcome": outcome.value,
                "seconds": round(settle_input.seconds, 1),
            },
        )
        return StepResult()

    async def _free(self, claim: ClaimRecord, command: DisruptionCommand) -> None:
        def compute(body: Object) -> dict[str, Any]:
            if object_json.annotations(body).get(labels.REPLACEMENT_FOR) != command.id:
                return {}
            return {"metadata": {"annotations": {labels.REPLACEMENT_FOR: None}}}

        await change(self._kube, NODECLAIMS, claim.name, compute, uid=claim.uid)

    async def _publish(self, pool: str, reason: EventReason, text: str) -> None:
        """Publish an event on a NodePool, if it is still there."""
        body = await self._kube.get(NODEPOOLS, pool)
        if body is not None:
            await self._recorder.publish(body, reason, text)


def _intended(command: DisruptionCommand) -> Counter[tuple[str, str]]:
    """How many replacements the command expects in each NodePool or, if that is known, in each reservation."""
    assert command.terminate_first is not None
    return Counter(map(_key, command.terminate_first.intended))


def _key(intended: IntendedReplacement) -> tuple[str, str]:
    return ("", intended.reservation) if intended.reservation else (intended.pool, "")


def _is_created_since(claim: ClaimRecord, since: datetime) -> bool:
    """Whether the claim was created since then. Creation timestamps have whole seconds."""
    created = parse_instant(claim.metadata.get("creationTimestamp"))
    return created is not None and created >= since.replace(microsecond=0)
