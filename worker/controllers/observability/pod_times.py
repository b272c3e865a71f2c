"""How long pods take to be decided, bound and ready (MET-23 to MET-25), from the changes of the cache.

A pod counts from the first time that it is seen Pending until it is ready, ends or is deleted. Only these are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from activities import metrics
from activities.metrics import (
    POD_PROVISIONING_UNBOUND,
    POD_PROVISIONING_UNSTARTED,
    POD_UNBOUND,
    POD_UNDECIDED,
    POD_UNSTARTED,
)
from tenon.kube.records import PodRecord
from worker.controllers.observability.summaries import Summary
from worker.controllers.observability.text_format import gauge_text, labeled

PENDING = "Pending"


@dataclass(slots=True)
class _Start:
    """A pod that is not ready yet. Times are seconds since the epoch; 0 is not yet."""

    pod: PodRecord
    needed_at: float = 0.0
    """When Tenon saw that the pod needs capacity."""
    decided_at: float = 0.0
    """When the first plan was made for it."""
    placed_at: float = 0.0
    """When the first plan was made that has a place for it."""
    bound: bool = False


class PodTimes:
    """Measures the pods of a cluster. Use it in the event loop of the cache."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._starts: dict[str, _Start] = {}
        """By UID."""
        self.startups = Summary(metrics.POD_STARTUP_SECONDS, clock)

    def begin(self, pods: Iterable[PodRecord]) -> None:
        """Start with the pods that are there."""
        self._starts.clear()
        for pod in pods:
            self.changed(pod.key, None, pod)

    def changed(self, _key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Note a change of a pod."""
        if before is not None and (after is None or after.uid != before.uid):
            self._starts.pop(before.uid, None)
        if after is None:
            return
        start = self._starts.get(after.uid)
        if start is None:
            if after.phase != PENDING:
                return
            start = self._starts[after.uid] = _Start(after)
        start.pod = after
        if after.provisionable and not start.needed_at:
            start.needed_at = self._clock()
        if after.bound_at and not start.bound:
            start.bound = True
            self._count_bound(start, after)
        if after.ready_at:
            self.startups.observe(max(0.0, after.ready_at - after.pod.created))
            if start.placed_at:
                metrics.POD_PROVISIONING_STARTUP_SECONDS.observe(max(0.0, after.ready_at - start.placed_at))
        if after.ready_at or after.terminal:
            del self._starts[after.uid]

    def decided(self, uids: Iterable[str], placed: Collection[str]) -> None:
        """Note a plan for these pods, of which it has a place for some."""
        now = self._clock()
        for uid in uids:
            start = self._starts.get(uid)
            if start is None:
                continue
            if not start.decided_at:
                start.decided_at = now
                metrics.POD_DECISION_SECONDS.observe(max(0.0, now - (start.needed_at or now)))
            if uid in placed and not start.placed_at:
                start.placed_at = now

    def texts(self, now: float) -> Iterator[str]:
        """The gauges of the pods that are not ready, and the summary. Call this in the event loop, read it anywhere."""
        return self._texts(list(self._starts.values()), self.startups.text(), now)

    @staticmethod
    def _texts(starts: Sequence[_Start], startups: str, now: float) -> Iterator[str]:
        names = [labeled({"name": start.pod.pod.name, "namespace": start.pod.pod.namespace}) for start in starts]
        labeled_starts = list(zip(names, starts, strict=True))
        unbound = [(f"{name},{_dynamic(start.pod)}", start) for name, start in labeled_starts if not start.bound]
        undecided = [
            (name, now - start.needed_at)
            for name, start in labeled_starts
            if start.needed_at and not start.decided_at and not start.pod.node_name
        ]
        for gauge, series in (
            (POD_UNSTARTED, [(name, now - start.pod.pod.created) for name, start in labeled_starts]),
            (POD_UNBOUND, [(name, now - start.pod.pod.created) for name, start in unbound]),
            (
                POD_PROVISIONING_UNSTARTED,
                [(name, now - start.placed_at) for name, start in labeled_starts if start.placed_at],
            ),
            (POD_PROVISIONING_UNBOUND, [(name, now - start.placed_at) for name, start in unbound if start.placed_at]),
            (POD_UNDECIDED, undecided),
        ):
            yield from gauge_text(gauge, series)
        yield startups

    @staticmethod
    def _count_bound(start: _Start, pod: PodRecord) -> None:
        dynamic = _has_claims(pod)
        metrics.POD_BOUND_SECONDS.labels(dynamic).observe(max(0.0, pod.bound_at - pod.pod.created))
        if start.placed_at:
            metrics.POD_PROVISIONING_BOUND_SECONDS.labels(dynamic).observe(max(0.0, pod.bound_at - start.placed_at))


def _has_claims(pod: PodRecord) -> str:
    return "true" if pod.has_resource_claims else "false"


def _dynamic(pod: PodRecord) -> str:
    return f'dynamic_resources="{_has_claims(pod)}"'
