"""Adds kube-scheduler's default topology spread to the pods that state none.

Services and workloads are read only if such a default is configured. The selector deduced for a pod is cached until a
selector changes, because a rollout changes only a few and a plan may ask about ten thousand pods.
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


class DefaultTopologySpread:
    """The tables ``services`` and ``owners`` (by plural), and pods with their default spread.

    ``tell`` is called with the key of each pod whose spread may have changed since it was last read.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.defaults: DefaultSpread = NOTHING
        self.services: Table[Chosen] = Table(self._service_changed)
        self.owners: dict[str, Table[Owning]] = {plural: Table(self._owner_changed) for plural in OWNERS.values()}
        self.changes = 0
        """Number of changes of selectors."""
        self._tell = tell
        self._services_of: dict[str, dict[str, Mapping[str, str]]] = {}
        self._spread_pods: dict[str, dict[str, tuple[tuple[Pod, Pod], ...]]] = {}
        """By namespace and key: the pod without and with its spread. Two of them, because a pod with an ephemeral
        volume is another one after its eviction.
        """

    def adopt(self, other: DefaultTopologySpread) -> None:
        """Take over another instance's current content. From now on this instance reports no changes."""
        self._tell = _ignore
        self.defaults = other.defaults
        self.changes = other.changes
        self.services.adopt(other.services)
        for plural, owners in self.owners.items():
            owners.adopt(other.owners[plural])
        self._services_of = {namespace: services.copy() for namespace, services in other._services_of.items()}
        self._spread_pods = {namespace: services.copy() for namespace, services in other._spread_pods.items()}

    def scheduling_pod(self, record: PodRecord, pod: Pod) -> Pod:
        """The pod with its spread. Returns the same object until something changes."""
        if not self.defaults or pod.rules.spreads or pod.buffer:
            return pod
        namespace_pods = self._spread_pods.setdefault(pod.namespace, {})
        cached = namespace_pods.get(record.key, ())
        for bare_pod, spread_pod in cached:
            if bare_pod is pod:
                return spread_pod
        spread_pod = self._spread(record, pod)
        namespace_pods[record.key] = ((pod, spread_pod), *cached[:1])
        return spread_pod

    def forget(self, pod_key: str) -> None:
        """Drop a pod from the cache. Does nothing if it is not there."""
        self._spread_pods.get(pod_key.partition("/")[0], {}).pop(pod_key, None)

    def _spread(self, record: PodRecord, pod: Pod) -> Pod:
        constraints = self.defaults.of(record.scheduler)
        if not constraints:
            return pod
        plural, key = record.selector_owner
        owner = self.owners[plural].get(key) if plural else None
        services = self._services_of.get(pod.namespace, {})
        selecting_services = [services[name] for name in sorted(services)]
        selector = deduced_selector(pod.labels, selecting_services, owner.value if owner else None)
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
        """Report the namespace's pods if a selector changed. Most changes of an object leave its selector alone."""
        if before != after:
            self.changes += 1
            for pod_key in sorted(self._spread_pods.pop(key.partition("/")[0], ())):
                self._tell(pod_key)


def _ignore(_pod_key: str) -> None:
    """The listener of an instance that is a copy."""
