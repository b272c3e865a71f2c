"""PersistentVolumeClaims, PersistentVolumes and StorageClasses, and pods with the requirements of their volumes.

The requirements of a pod's volumes are cached until one of the objects that they were read from changes. With ten
thousand pods with a volume each, the cost then depends only on the pods whose PVCs change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass, default_class, with_volumes
from worker.cache.table import Table

PVC, VOLUME, CLASS = "pvc", "volume", "class"
Source = tuple[str, str]
"""One of the kinds above and a key: an object that a result was read from."""
ANY_CLASS = (CLASS, "")
"""Stands for all classes, because which one is the default depends on all of them."""


@dataclass(frozen=True, slots=True)
class _CachedPod:
    record: PodRecord
    pod: Pod
    sources: frozenset[Source]


class CachedStorage:
    """The tables ``pvcs``, ``volumes`` and ``classes``, and pods as scheduling sees them.

    ``tell`` is called with the key of each pod whose volume requirements may have changed since they were last read.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.pvcs: Table[ValueRecord[PersistentVolumeClaim]] = Table(lambda key, _b, _a: self._changed((PVC, key)))
        self.volumes: Table[ValueRecord[PersistentVolume]] = Table(lambda key, _b, _a: self._changed((VOLUME, key)))
        self.classes: Table[ValueRecord[StorageClass]] = Table(lambda key, _b, _a: self._class_changed(key))
        self.changes = 0
        """Number of changes of volumes, claims and storage classes."""
        self._tell = tell
        self._entries: dict[str, _CachedPod] = {}
        self._recreated: dict[str, _CachedPod] = {}
        """Those with ephemeral volumes, as they are after an eviction."""
        self._readers: dict[Source, set[str]] = {}

    def adopt(self, other: CachedStorage) -> None:
        """Take over another instance's current content. From now on this instance reports no changes."""
        self._tell = _ignore
        self.pvcs.adopt(other.pvcs)
        self.volumes.adopt(other.volumes)
        self.classes.adopt(other.classes)
        self.changes = other.changes
        self._entries, self._recreated = other._entries.copy(), other._recreated.copy()

    def scheduling_pod(self, record: PodRecord) -> Pod:
        """The pod with the requirements of its volumes. Returns the same object until something changes."""
        return self._resolved(record, self._entries, recreated=False) if record.volumes else record.pod

    def recreated_pod(self, record: PodRecord) -> Pod:
        """The same after the pod's eviction. A pod without a node is not evicted, so it keeps its volumes."""
        if record.node_name and any(use.template is not None for use in record.volumes):
            return self._resolved(record, self._recreated, recreated=True)
        return self.scheduling_pod(record)

    def _resolved(self, record: PodRecord, entries: dict[str, _CachedPod], *, recreated: bool) -> Pod:
        cached = entries.get(record.key)
        if cached is not None and cached.record is not record:
            self.forget(record.key)
            cached = None
        if cached is None:
            reading = _Reading(self)
            pod = with_volumes(record.pod, record.volumes, reading, recreated=recreated)
            cached = entries[record.key] = _CachedPod(record, pod, frozenset(reading.sources))
            for source in cached.sources:
                self._readers.setdefault(source, set()).add(record.key)
        return cached.pod

    def forget(self, pod_key: str) -> None:
        """Drop a pod from the cache. Does nothing if it is not there."""
        entries = (self._entries.pop(pod_key, None), self._recreated.pop(pod_key, None))
        for source in {source for cached in entries if cached is not None for source in cached.sources}:
            readers = self._readers.get(source, set())  # a copy does not adopt the readers
            readers.discard(pod_key)
            if not readers:
                self._readers.pop(source, None)

    def _changed(self, source: Source) -> None:
        self.changes += 1
        for pod_key in sorted(self._readers.get(source, ())):
            self.forget(pod_key)
            self._tell(pod_key)

    def _class_changed(self, name: str) -> None:
        self._changed((CLASS, name))
        self._changed(ANY_CLASS)


@dataclass(slots=True)
class _Reading:
    """Looks up objects and records every lookup, whether or not the object exists."""

    storage: CachedStorage
    sources: set[Source] = field(default_factory=set)

    def pvc(self, key: str) -> PersistentVolumeClaim | None:
        """The PersistentVolumeClaim of this ``namespace/name``."""
        self.sources.add((PVC, key))
        claim = self.storage.pvcs.get(key)
        return claim.value if claim is not None else None

    def volume(self, name: str) -> PersistentVolume | None:
        """The PersistentVolume of this name."""
        self.sources.add((VOLUME, name))
        persistent_volume = self.storage.volumes.get(name)
        return persistent_volume.value if persistent_volume is not None else None

    def storage_class(self, name: str | None) -> StorageClass | None:
        """The StorageClass of this name, or the default class if the name is None."""
        if name is None:
            self.sources.add(ANY_CLASS)
            return default_class(record.value for record in self.storage.classes)
        self.sources.add((CLASS, name))
        parsed_class = self.storage.classes.get(name)
        return parsed_class.value if parsed_class is not None else None


def _ignore(_pod_key: str) -> None:
    """The listener of an instance that is a copy."""
