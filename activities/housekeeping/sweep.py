"""The activity "collect garbage": one sweep over a cluster's Kubernetes objects, EC2 instances and workflows."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime

from temporalio import activity
from temporalio.service import RPCError

from activities import loggers, metrics
from activities.clock import utc_now
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.housekeeping.network_records import record_networks
from activities.housekeeping.node_workflows import NodeWorkflows
from activities.housekeeping.sweep_actions import SweepActions
from activities.housekeeping.sweep_events import HELD_BACK, event_for, subject_of
from activities.housekeeping.sweep_reader import MAX_ERROR_LENGTH, observe
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.events import EventPublisher
from tenon.evolve import evolve
from tenon.housekeeping.brake import BRAKED, HeldBack, held_back
from tenon.housekeeping.decide import GRACES, findings, split_by_limits
from tenon.housekeeping.facts import Graces, Observations
from tenon.housekeeping.findings import Finding, Kind
from tenon.housekeeping.instances import left_to_workflows
from tenon.housekeeping.messages import COLLECT_GARBAGE, Figures, HousekeepingInput, HousekeepingResult

log = loggers.HOUSEKEEPING

HEARTBEAT_AFTER = 20.0
"""Seconds of work between heartbeats. Heartbeats are billed, so a sweep that finds little sends none."""
BETWEEN_TAGS = 1.0
MAX_REPORTED = 10
FAILED_KEPT = 1000
"""The maximum number of failed findings in the result, which must stay small."""


class Housekeeping:
    """Finds lost objects, and ends or repairs them. A failure on one object never stops the others."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        ec2: Ec2Provider,
        *,
        now: Callable[[], datetime] = utc_now,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        graces: Graces = GRACES,
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2
        self._now = now
        self._pause = pause
        self._graces = graces
        self._finalizers: set[str] = set()

    @activity.defn(name=COLLECT_GARBAGE)
    async def collect(self, given: HousekeepingInput) -> HousekeepingResult:
        """Compare Kubernetes, EC2 and Temporal, end or repair what is lost, and return figures."""
        workflows = NodeWorkflows(activity.client(), given.cluster, activity.info().task_queue)
        seen, unread = await observe(self._kube, self._ec2, workflows, self._now, given.left_since)
        for source, why in unread.items():
            metrics.HOUSEKEEPING_UNREAD.labels(source).inc()
            log.warning("The sweep failed to read a source", extra={"source": source, "error": why})
        figures = {kind.value: Figures() for kind in Kind}
        free, held = held_back(findings(seen, self._graces), seen, self._graces, given.confirmed)
        await self._report_held_back(held, figures)
        todo, later = split_by_limits(free, max(given.actions, given.confirmed), given.tags, given.failed)
        faults = await self._act_on(SweepActions(self._kube, self._ec2, workflows, self._graces), todo, seen, figures)
        await record_networks(self._kube, given.cluster, seen)
        untried = {found.key for found in later}
        failed = [key for key in given.failed if key in untried] + list(faults)
        for found in later:
            _add(figures, found.kind, "found", "put_off")
        self._measure(seen)
        if not unread:
            metrics.HOUSEKEEPING_SUCCESS.set(self._now().timestamp())
        return HousekeepingResult(
            figures={kind: row for kind, row in figures.items() if row.found},
            unread=unread,
            faults=list(faults.values())[:MAX_REPORTED],
            failed=failed[:FAILED_KEPT],
            left_since=left_to_workflows(seen, self._graces),
            held_back=[each.why for each in held],
        )

    async def _report_held_back(self, held: Sequence[HeldBack], figures: dict[str, Figures]) -> None:
        counts = Counter(found.kind for each in held for found in each.findings)
        for kind in BRAKED:
            metrics.HOUSEKEEPING_HELD_BACK.labels(kind.value).set(counts[kind])
        for each in held:
            extra = {"kind": each.kind.value, "finding-count": len(each.findings), "reason": each.why}
            log.error("The sweep ends nothing of a kind until a person confirms it", extra=extra)
            for found in each.findings:
                _add(figures, found.kind, "found", "held_back")
            subjects = [subject_of(found) for found in each.findings]
            by_name = {(subject["kind"], subject["metadata"]["name"]): subject for subject in subjects}
            for subject in list(by_name.values())[:MAX_REPORTED]:
                await self._recorder.publish(subject, HELD_BACK, each.why, "Warning")

    async def _act_on(
        self, acting: SweepActions, todo: Iterable[Finding], seen: Observations, figures: dict[str, Figures]
    ) -> dict[str, str]:
        """Act on the findings. Return the key of each that failed, with the reason."""
        faults: dict[str, str] = {}
        beaten = time.monotonic()
        for found in todo:
            if time.monotonic() - beaten > HEARTBEAT_AFTER:
                activity.heartbeat()
                beaten = time.monotonic()
            try:
                held = await acting.act(found, seen)
            except (ApiError, EC2Error, RPCError) as error:
                _add(figures, found.kind, "found", "failed")
                metrics.HOUSEKEEPING_FAILED.labels(found.kind.value).inc()
                faults[found.key] = f"{found.kind.value} {found.name}: {error}"[:MAX_ERROR_LENGTH]
                extra = {"kind": found.kind.value, "object": found.name, "error": str(error)}
                if found.kind is Kind.UNTAGGED_INSTANCE:
                    log.warning("The sweep failed to tag an instance", extra=extra)
                else:
                    log.warning("The sweep failed to terminate an orphaned object", extra=extra)
                continue
            if held:
                await self._publish_events(found, figures)
            if found.kind is Kind.UNTAGGED_INSTANCE:
                await self._pause(BETWEEN_TAGS)
        return faults

    async def _publish_events(self, found: Finding, figures: dict[str, Figures]) -> None:
        if found.kind is Kind.FOREIGN_FINALIZER:  # nothing was ended, because another controller must act
            _add(figures, found.kind, "found")
        else:
            _add(figures, found.kind, "found", "ended")
            metrics.HOUSEKEEPING_ENDED.labels(found.kind.value).inc()
            extra = {"kind": found.kind.value, "object": found.name, "nodeclaim": found.claim}
            if found.kind is Kind.UNTAGGED_INSTANCE:
                log.info("The sweep tagged an instance", extra=extra)
            else:
                log.info("The sweep terminated an orphaned object", extra={**extra, "since": found.since.isoformat()})
        event = event_for(found)
        if event is not None:
            about, reason, text = event
            await self._recorder.publish(about, reason, text, "Warning")

    def _measure(self, seen: Observations) -> None:
        """Set the metric of claims per foreign finalizer. A finalizer that holds no claims any more becomes 0."""
        if seen.claims is None:
            return
        held: dict[str, int] = dict.fromkeys(self._finalizers, 0)
        for claim in seen.managed_claims:
            for finalizer in claim.foreign_finalizers:
                held[finalizer] = held.get(finalizer, 0) + 1
        for finalizer, count in held.items():
            metrics.FOREIGN_FINALIZERS.labels(finalizer).set(count)
        self._finalizers = set(held)


def _add(figures: dict[str, Figures], kind: Kind, *fields: str) -> None:
    if "found" in fields:
        metrics.HOUSEKEEPING_FOUND.labels(kind.value).inc()
    row = figures[kind.value]
    figures[kind.value] = evolve(row, **{field: getattr(row, field) + 1 for field in fields})
