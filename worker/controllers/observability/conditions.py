"""The conditions and terminations of objects as metrics (MET-60): gauges at a scrape, counts at each change.

Counts stay in files that are mapped into memory, on a file system in memory of a fixed size. A process that writes to
such a file when the file system is full ends at once, so that the number of counts has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.metrics import MetricWrapperBase

from activities import loggers, metrics
from activities.metrics import CONDITION_COUNT, CONDITION_LABELS, CONDITION_SECONDS, TERMINATING_SECONDS
from tenon.apis import labels
from tenon.kube.records import NodeRecord, ObjectRecord
from tenon.kube.timestamps import epoch_seconds
from worker.cache.state import ClusterState
from worker.controllers.observability.text_format import gauge_text, labeled

OBJECT_LABELS = {
    metrics.NODECLASS_LABEL: labels.EC2NODECLASS,
    metrics.NODEPOOL_LABEL: labels.NODEPOOL,
    "karpenter_sh_initialized": labels.INITIALIZED,
}
"""The label of an object, by the label of its metrics."""
MAX_SERIES = 10_000
"""Maximum number of counts and histograms of one kind of objects. A histogram takes 7 to 10 KB, a count less than 1 KB,
and the file system of the chart's pod has 256 MiB.
"""
MAX_VALUES = 50
"""Maximum number of types of conditions, and of reasons, that are counted by name."""
VALUE = re.compile(r"[\w./-]{0,100}", re.ASCII)
"""What they must be for that. A longer one would take more room in each series."""
OTHER = "other"
KUBERNETES_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
STATUSES = ("True", "False", "Unknown")


class TimedCondition(NamedTuple):
    """A condition, and since when it has its status, in seconds since the epoch."""

    type: str
    status: str
    reason: str
    since: float


def condition_texts(kind: str, objects: Iterable[ObjectRecord | NodeRecord], now: float) -> Iterator[str]:
    """The gauges of all objects of a kind, in pieces."""
    count: list[tuple[str, float]] = []
    seconds: list[tuple[str, float]] = []
    terminating: list[tuple[str, float]] = []
    for record in objects:
        namespace, _, name = record.key.rpartition("/")
        own = labeled({"namespace": namespace, "name": name, **_object_labels(kind, record)})
        for condition in conditions_of(record):
            fields = {"type": condition.type, "status": condition.status, "reason": condition.reason}
            text = f"{own},{labeled(fields)}"
            count.append((text, 1))
            if condition.since:
                seconds.append((text, round(now - condition.since)))
        if deleted_at := _deleted_at(record):
            terminating.append((own, round(now - deleted_at)))
    yield from gauge_text(CONDITION_COUNT[kind], count)
    yield from gauge_text(CONDITION_SECONDS[kind], seconds)
    yield from gauge_text(TERMINATING_SECONDS[kind], terminating)


class Transitions:
    """Counts the conditions of one kind that change, and measures how long objects take to go."""

    def __init__(self, kind: str, clock: Callable[[], float]) -> None:
        self._kind = kind
        self._clock = clock
        self._series: set[tuple[MetricWrapperBase, tuple[str, ...]]] = set()
        self._is_full = False

    def changed(
        self, _key: str, before: ObjectRecord | NodeRecord | None, after: ObjectRecord | NodeRecord | None
    ) -> None:
        """Note a change of an object."""
        record = after or before
        own = self._labels_of(record) if record is not None else None
        if own is None:
            return
        if before is not None and after is None and (deleted_at := _deleted_at(before)):
            histogram = metrics.TERMINATION_SECONDS[self._kind]
            if self._has_room(histogram, own):
                (histogram.labels(*own) if own else histogram).observe(max(0.0, self._clock() - deleted_at))
        transitions = metrics.CONDITION_TRANSITIONS.get(self._kind)
        if after is None or transitions is None:
            return
        earlier = {condition.type: condition for condition in conditions_of(before)} if before is not None else {}
        for condition in conditions_of(after):
            old = earlier.get(condition.type)
            if old is not None and old.status == condition.status:
                continue
            new = self._shown(condition)
            values = (new.type, new.status, new.reason, *own)
            if self._has_room(transitions, values):
                transitions.labels(*values).inc()
            if old is not None:
                histogram = metrics.CONDITION_TRANSITION_SECONDS[self._kind]
                values = (new.type, self._shown(old).status, new.status, *own)
                if self._has_room(histogram, values):
                    histogram.labels(*values).observe(max(0.0, condition.since - old.since))

    def _labels_of(self, record: ObjectRecord | NodeRecord) -> tuple[str, ...] | None:
        """The labels of an object's metrics. None if it has no metrics."""
        return tuple(_object_labels(self._kind, record).values())

    def _shown(self, condition: TimedCondition) -> TimedCondition:
        """The condition as the labels of metrics show it."""
        return condition

    def _has_room(self, metric: MetricWrapperBase, values: tuple[str, ...]) -> bool:
        """Whether a metric may have a series with these labels."""
        if (metric, values) in self._series:
            return True
        if len(self._series) < MAX_SERIES:
            self._series.add((metric, values))
            return True
        if not self._is_full:
            self._is_full = True
            loggers.PROCESS.warning(
                "Conditions with new labels are not counted, because there are too many since the worker started",
                extra={"kind": self._kind},
            )
        return False


class NodeTransitions(Transitions):
    """Counts the conditions of the Nodes of NodePools.

    A kubelet may write any label and any condition on its own Node. So the labels are those of the NodeClaim, and of
    types and reasons only the first ones count by name.
    """

    def __init__(self, cache: ClusterState) -> None:
        super().__init__("node", cache.clock)
        self._cache = cache
        self._last_labels: dict[str, tuple[str, ...]] = {}
        """Those of each Node that has a NodeClaim. The watch of NodeClaims may say first that both are gone."""
        self._types = _FirstValues(KUBERNETES_TYPES)
        self._reasons = _FirstValues()

    def changed(
        self, _key: str, before: ObjectRecord | NodeRecord | None, after: ObjectRecord | NodeRecord | None
    ) -> None:
        super().changed(_key, before, after)
        if before is not None and after is None:
            self._last_labels.pop(before.key, None)

    def _labels_of(self, record: ObjectRecord | NodeRecord) -> tuple[str, ...] | None:
        claim = self._cache.claim_of(record) if isinstance(record, NodeRecord) else None
        if claim is None or labels.NODEPOOL not in claim.labels:
            return self._last_labels.get(record.key)
        is_initialized = record.labels.get(labels.INITIALIZED) == "true"
        of_node = {**claim.labels, labels.INITIALIZED: "true" if is_initialized else ""}
        values = tuple(of_node.get(OBJECT_LABELS[label], "") for label in CONDITION_LABELS["node"])
        self._last_labels[record.key] = values
        return values

    def _shown(self, condition: TimedCondition) -> TimedCondition:
        return condition._replace(
            type=self._types.shown(condition.type),
            status=condition.status if condition.status in STATUSES else OTHER,
            reason=self._reasons.shown(condition.reason),
        )


class _FirstValues:
    """The values of a label that are shown by name: the usual ones, and the first others."""

    def __init__(self, usual: Iterable[str] = ()) -> None:
        self._values = set(usual)

    def shown(self, value: str) -> str:
        """The value, or else `OTHER`."""
        if value in self._values:
            return value
        if len(self._values) >= MAX_VALUES or not VALUE.fullmatch(value):
            return OTHER
        self._values.add(value)
        return value


def conditions_of(record: ObjectRecord | NodeRecord) -> Iterator[TimedCondition]:
    """The conditions of an object."""
    if isinstance(record, NodeRecord):
        for condition in record.conditions:
            yield TimedCondition(condition.type, condition.status, condition.reason, condition.since)
        return
    for entry in record.status.get("conditions") or ():
        since = epoch_seconds(entry.get("lastTransitionTime"))
        yield TimedCondition(entry.get("type", ""), entry.get("status", ""), entry.get("reason") or "", since)


def _deleted_at(record: ObjectRecord | NodeRecord) -> float:
    if isinstance(record, NodeRecord):
        return record.deleted_at
    deleted_at = record.deleted_at
    return deleted_at.timestamp() if deleted_at is not None else 0.0


def _object_labels(kind: str, record: ObjectRecord | NodeRecord) -> Mapping[str, str]:
    return {label: record.labels.get(OBJECT_LABELS[label], "") for label in CONDITION_LABELS[kind]}
