"""Pods together with the topology spread that the configuration of kube-scheduler gives to those that state none.

Services and workloads are followed only where there is such a configuration. What is deduced of a pod is kept until a
selector changes: a rollout changes a few, and what a plan asks of ten thousand pods must not be worked out each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tenon.kube.default_spread import OWNERS, deduced_selector, with_defaults
from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.kube.selectors import LabelSelector
from tenon.kube.sharing import share_value
from worker.cache.table import Table

Chosen = ValueRecord[Mapping[str, str] | None]
Owning = ValueRecord[LabelSelector | None]


class Spreading:
    """The tables ``services`` and ``owners``, the latter by plural, and pods with their spread.

    ``tell`` is called with the key of a pod that may be spread otherwise than it was when last asked.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.defaults: DefaultSpread = NOTHING
        self.services: Table[Chosen] = Table(self._service_changed)
        self.owners: dict[str, Table[Owning]] = {plural: Table(self._owner_changed) for plural in OWNERS.values()}
        self._tell = tell
        self._services_of: dict[str, dict[str, Mapping[str, str]]] = {}
        self._known: dict[str, dict[str, tuple[Pod, Pod]]] = {}
        """By namespace and key: the pod before and after."""

    def adopt(self, other: Spreading) -> None:
        """Holds what another holds now, and tells of nothing."""
        self.defaults = other.defaults
        self.services.adopt(other.services)
        for plural, owners in self.owners.items():
            owners.adopt(other.owners[plural])
        self._services_of = {namespace: found.copy() for namespace, found in other._services_of.items()}
        self._known = {namespace: found.copy() for namespace, found in other._known.items()}

    def scheduling_pod(self, record: PodRecord, pod: Pod) -> Pod:
        """The pod with its spread; the same object as before as long as nothing changed."""
        if not self.defaults or pod.rules.spreads or pod.buffer:
            return pod
        here = self._known.setdefault(pod.namespace, {})
        known = here.get(record.key)
        if known is None or known[0] is not pod:
            known = here[record.key] = (pod, self._spread(record, pod))
        return known[1]

    def forget(self, pod_key: str) -> None:
        """Drop what is known of a pod; again is harmless."""
        self._known.get(pod_key.partition("/")[0], {}).pop(pod_key, None)

    def _spread(self, record: PodRecord, pod: Pod) -> Pod:
        constraints = self.defaults.of(record.scheduler)
        if not constraints:
            return pod
        plural, key = record.selector_owner
        owner = self.owners[plural].get(key) if plural else None
        services = self._services_of.get(pod.namespace, {})
        chosen = [services[name] for name in sorted(services)]
        selector = deduced_selector(pod.labels, chosen, owner.value if owner else None)
        rules = with_defaults(pod.rules, constraints, selector)
        return replace(pod, rules=share_value(rules)) if rules is not pod.rules else pod

    def _service_changed(self, key: str, before: Chosen | None, after: Chosen | None) -> None:
        namespace = key.partition("/")[0]
        if after is not None and after.value:
            self._services_of.setdefault(namespace, {})[key] = after.value
        else:
            self._services_of.get(namespace, {}).pop(key, None)
        self._selector_changed(key, before and before.value, after and after.value)

    def _owner_changed(self, key: str, before: Owning | None, after: Owning | None) -> None:
        self._selector_changed(key, before and before.value, after and after.value)

    def _selector_changed(self, key: str, before: object, after: object) -> None:
        """Objects change far more often than their selectors."""
        if before != after:
            for pod_key in sorted(self._known.pop(key.partition("/")[0], ())):
                self._tell(pod_key)
