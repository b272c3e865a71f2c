"""The activity "collect garbage": one sweep over a cluster's Kubernetes objects, EC2 instances and workflows.

It also records on NodeClaims in which subnet and security groups their instances are, for drift. The launch writes this
too. The sweep corrects it from what it has read of EC2 anyway: for nodes that another controller launched, and after
somebody has changed the security groups of an instance.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime

from temporalio import activity
from temporalio.service import RPCError

from activities import loggers, metrics
from activities.clock import utc_now
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.garbage_collection.node_workflows import NodeWorkflows
from activities.garbage_collection.sweep_actions import ACTIONS, SweepActions, event_for, subject_of
from activities.garbage_collection.sweep_reader import MAX_ERROR_LENGTH, observe
from activities.heartbeat import with_heartbeat
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import annotate_claim
from activities.reported_gauges import report
from tenon.ec2.launch.network_annotations import network_annotations
from tenon.evolve import evolve
from tenon.garbage_collection.brake import BRAKED, HeldBack, held_back
from tenon.garbage_collection.decide import GRACES, findings, split_by_limits
from tenon.garbage_collection.facts import Graces, Observations, ObservedClaim
from tenon.garbage_collection.findings import Finding, FindingKind
from tenon.garbage_collection.instances import left_to_workflows
from tenon.kube.event_reasons import EventReason
from tenon.messages.base import ClaimRef
from tenon.messages.garbage_collection import COLLECT_GARBAGE, Figures, GarbageCollectionInput, GarbageCollectionResult

MAX_RECORDED = 200
"""Maximum number of NodeClaims to correct in one sweep. The next sweeps correct the others."""
CONCURRENCY = 5


async def record_networks(kube: Kube, cluster: str, observations: Observations) -> None:
    """Correct the NodeClaims that do not say where their instance is. A failure is left to the next sweep."""

    async def record(claim: ObservedClaim, annotations: dict[str, str]) -> None:
        ref = ClaimRef(cluster=cluster, name=claim.name, uid=claim.uid)
        try:
            await annotate_claim(kube, ref, annotations)
        except ApiError as error:
            log.warning(
                "The sweep failed to record the network of an instance",
                extra={"nodeclaim": claim.name, "error": str(error)},
            )

    todo = [pair for pair, _ in zip(_outdated(observations), range(MAX_RECORDED), strict=False)]
    await with_heartbeat(bounded(todo, CONCURRENCY, lambda pair: record(*pair)))


def _outdated(observations: Observations) -> Iterator[tuple[ObservedClaim, dict[str, str]]]:
    by_id = {instance.id: instance for instance in observations.instances or ()}
    for claim in observations.managed_claims:
        instance = by_id.get(claim.instance_id)
        if instance is None or claim.deleted_at is not None or claim.launched_at is None:
            continue
        annotations = network_annotations(instance.subnet_id, instance.security_group_ids)
        if any(claim.network.get(key) != value for key, value in annotations.items()):
            yield claim, annotations


log = loggers.GARBAGE_COLLECTION

HEARTBEAT_AFTER = 20.0
"""Seconds of work between heartbeats. Heartbeats are billed, so a sweep that finds little sends none."""
BETWEEN_TAGS = 1.0
MAX_REPORTED = 10
MAX_NAMED = 20
"""The maximum number of things in the result that were ended or repaired, by name."""
FAILED_KEPT = 1000
"""The maximum number of failed findings in the result, which must stay small."""


class GarbageCollection:
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

    @activity.defn(name=COLLECT_GARBAGE)
    async def collect(self, sweep_input: GarbageCollectionInput) -> GarbageCollectionResult:
        """Compare Kubernetes, EC2 and Temporal, end or repair what is lost, and return figures."""
        workflows = NodeWorkflows(activity.client(), sweep_input.cluster, activity.info().task_queue)
        observations, unread = await observe(self._kube, self._ec2, workflows, self._now, sweep_input.left_since)
        for source, why in unread.items():
            metrics.GARBAGE_COLLECTION_UNREAD.labels(source).inc()
            log.warning("The sweep failed to read a source", extra={"source": source, "error": why})
        figures = {kind.value: Figures() for kind in FindingKind}
        free, held_back_findings = held_back(
            findings(observations, self._graces), observations, self._graces, sweep_input.confirmed
        )
        await self._report_held_back(held_back_findings, figures)
        todo, later = split_by_limits(
            free, max(sweep_input.actions, sweep_input.confirmed), sweep_input.tags, sweep_input.failed
        )
        ended: list[str] = []
        faults = await self._act_on(
            SweepActions(self._kube, self._ec2, workflows, self._graces), todo, observations, figures, ended
        )
        await record_networks(self._kube, sweep_input.cluster, observations)
        untried = {finding.key for finding in later}
        failed = [key for key in sweep_input.failed if key in untried] + list(faults)
        for finding in later:
            _add(figures, finding.kind, "findings", "put_off")
        _measure(observations)
        if not unread:
            metrics.GARBAGE_COLLECTION_SUCCESS.set(self._now().timestamp())
        return GarbageCollectionResult(
            figures={kind: row for kind, row in figures.items() if row.findings},
            unread=unread,
            faults=list(faults.values())[:MAX_REPORTED],
            failed=failed[:FAILED_KEPT],
            left_since=left_to_workflows(observations, self._graces),
            ended=ended[:MAX_NAMED],
            held_back=[held_back_finding.why for held_back_finding in held_back_findings],
        )

    async def _report_held_back(self, held_back_findings: Sequence[HeldBack], figures: dict[str, Figures]) -> None:
        counts = Counter(
            finding.kind for held_back_finding in held_back_findings for finding in held_back_finding.findings
        )
        for kind in BRAKED:
            metrics.GARBAGE_COLLECTION_HELD_BACK.labels(kind.value).set(counts[kind])
        for held_back_finding in held_back_findings:
            extra = {
                "kind": held_back_finding.kind.value,
                "finding-count": len(held_back_finding.findings),
                "reason": held_back_finding.why,
            }
            log.error("The sweep ends nothing of a kind until a person confirms it", extra=extra)
            for finding in held_back_finding.findings:
                _add(figures, finding.kind, "findings", "held_back")
            subjects = [subject_of(finding) for finding in held_back_finding.findings]
            by_name = {(subject["kind"], subject["metadata"]["name"]): subject for subject in subjects}
            for subject in list(by_name.values())[:MAX_REPORTED]:
                await self._recorder.publish(subject, EventReason.GARBAGE_COLLECTION_HELD_BACK, held_back_finding.why)

    async def _act_on(
        self,
        acting: SweepActions,
        todo: Iterable[Finding],
        observations: Observations,
        figures: dict[str, Figures],
        ended: list[str],
    ) -> dict[str, str]:
        """Act on the findings, and name in ``ended`` what was done. Return the key of each that failed, with why."""
        faults: dict[str, str] = {}
        beaten = time.monotonic()
        for finding in todo:
            if time.monotonic() - beaten > HEARTBEAT_AFTER:
                activity.heartbeat()
                beaten = time.monotonic()
            try:
                is_held = await acting.act(finding, observations)
            except (ApiError, EC2Error, RPCError) as error:
                _add(figures, finding.kind, "findings", "failed")
                metrics.GARBAGE_COLLECTION_FAILED.labels(finding.kind.value).inc()
                faults[finding.key] = f"{finding.kind.value} {finding.name}: {error}"[:MAX_ERROR_LENGTH]
                extra = {"kind": finding.kind.value, "object": finding.name, "error": str(error)}
                log.warning("The sweep failed to act on what it found", extra=extra)
                continue
            if is_held:
                await self._publish_events(finding, figures, ended)
            if finding.kind is FindingKind.UNTAGGED_INSTANCE:
                await self._pause(BETWEEN_TAGS)
        return faults

    async def _publish_events(self, finding: Finding, figures: dict[str, Figures], ended: list[str]) -> None:
        if finding.kind is FindingKind.FOREIGN_FINALIZER:  # nothing was ended, because another controller must act
            _add(figures, finding.kind, "findings")
        else:
            _add(figures, finding.kind, "findings", "ended")
            metrics.GARBAGE_COLLECTION_ENDED.labels(finding.kind.value).inc()
            extra = {"kind": finding.kind.value, "object": finding.name, "nodeclaim": finding.claim}
            action = ACTIONS[finding.kind]
            log.info(action, extra={**extra, "since": finding.since.isoformat()})
            ended.append(f"{finding.name}: {action}")
        event = event_for(finding)
        if event is not None:
            about, reason, text = event
            await self._recorder.publish(about, reason, text)


def _measure(observations: Observations) -> None:
    """Set the metric of claims per foreign finalizer."""
    if observations.claims is None:
        return
    counts = Counter(finalizer for claim in observations.managed_claims for finalizer in claim.foreign_finalizers)
    report(metrics.FOREIGN_FINALIZERS, {(finalizer,): count for finalizer, count in counts.items()})


def _add(figures: dict[str, Figures], kind: FindingKind, *fields: str) -> None:
    if "findings" in fields:
        metrics.GARBAGE_COLLECTION_FOUND.labels(kind.value).inc()
    row = figures[kind.value]
    figures[kind.value] = evolve(row, **{field: getattr(row, field) + 1 for field in fields})
