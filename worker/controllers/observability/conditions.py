"""The conditions and terminations of objects as metrics (MET-60): gauges at a scrape, counts at each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from activities import metrics
from activities.metrics import CONDITION_COUNT, CONDITION_LABELS, CONDITION_SECONDS, TERMINATING_SECONDS
from tenon.apis import labels
from tenon.kube.records import NodeRecord, ObjectRecord
from tenon.kube.timestamps import epoch_seconds
from worker.controllers.observability.text_format import gauge_text, labeled

OBJECT_LABELS = {
    metrics.NODECLASS_LABEL: labels.EC2NODECLASS,
    metrics.NODEPOOL_LABEL: labels.NODEPOOL,
    "karpenter_sh_initialized": labels.INITIALIZED,
}
"""The label of an object, by the label of its metrics."""


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

    def changed(
        self, _key: str, before: ObjectRecord | NodeRecord | None, after: ObjectRecord | NodeRecord | None
    ) -> None:
        """Note a change of an object."""
        if before is not None and after is None and (deleted_at := _deleted_at(before)):
            histogram = metrics.TERMINATION_SECONDS[self._kind]
            own = _object_labels(self._kind, before).values()
            (histogram.labels(*own) if own else histogram).observe(max(0.0, self._clock() - deleted_at))
        transitions = metrics.CONDITION_TRANSITIONS.get(self._kind)
        if after is None or transitions is None:
            return
        earlier = {condition.type: condition for condition in conditions_of(before)} if before is not None else {}
        for condition in conditions_of(after):
            old = earlier.get(condition.type)
            if old is not None and old.status == condition.status:
                continue
            own = _object_labels(self._kind, after).values()
            transitions.labels(condition.type, condition.status, condition.reason, *own).inc()
            if old is not None:
                histogram = metrics.CONDITION_TRANSITION_SECONDS[self._kind]
                histogram.labels(old.type, old.status, condition.status, *own).observe(
                    max(0.0, condition.since - old.since)
                )


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
