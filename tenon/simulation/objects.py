"""Collects the Kubernetes objects of an input: opens lists, identifies kinds and refuses duplicates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenon.apis.json_object import JsonObject
from tenon.apis.kinds import BUFFER_GROUP, KINDS
from tenon.apis.legacy.config_maps import is_settings
from tenon.kube import scheduler_config
from tenon.kube.structs import DEFAULT_NAMESPACE, object_key
from tenon.manifests.faults import ManifestError, Source

CORE, APPS, STORAGE = "", "apps", "storage.k8s.io"

CLUSTER_WIDE: Mapping[str, str] = {
    **{kind.name: kind.group for kind in KINDS if kind.scope == "Cluster"},
    "Node": CORE,
    "Namespace": CORE,
    "PersistentVolume": CORE,
    "StorageClass": STORAGE,
    "CSINode": STORAGE,
    "CSIDriver": STORAGE,
    "PriorityClass": "scheduling.k8s.io",
    "RuntimeClass": "node.k8s.io",
}
"""Cluster-scoped kinds that are read, with their API group."""
NAMESPACED: Mapping[str, str] = {
    "Pod": CORE,
    "ConfigMap": CORE,
    "PodTemplate": CORE,
    "LimitRange": CORE,
    "CapacityBuffer": BUFFER_GROUP,
    "PersistentVolumeClaim": CORE,
    "Service": CORE,
    "ReplicationController": CORE,
    "Deployment": APPS,
    "ReplicaSet": APPS,
    "StatefulSet": APPS,
    "DaemonSet": APPS,
    "Job": "batch",
    "PodDisruptionBudget": "policy",
    "ControllerRevision": APPS,
}
GROUPS: Mapping[str, str] = {**CLUSTER_WIDE, **NAMESPACED}
VERSIONS = {kind.name: kind.versions for kind in KINDS}
"""Supported versions of the kinds that have several."""

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_PART}(\.{_PART})*")
_MAX_LIST_DEPTH = 3


@dataclass(frozen=True, slots=True)
class SourcedObject:
    """An object and its source."""

    kind: str
    body: JsonObject
    source: Source

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for cluster-scoped kinds."""
        return str(self.body["metadata"].get("namespace") or DEFAULT_NAMESPACE) if self.kind in NAMESPACED else ""

    @property
    def key(self) -> str:
        """``namespace/name``, or only the name of a cluster-scoped object."""
        return object_key(self.name, self.namespace)

    @property
    def subject(self) -> str:
        """``Kind namespace/name``."""
        return f"{self.kind} {self.key}"

    def fault(self, path: str, problem: str) -> ManifestError:
        """Return a fault of this object."""
        return ManifestError(self.source, problem, self.subject, path)


@dataclass
class Objects:
    """All objects of an input by kind and key, with the faults and notes."""

    by_kind: dict[str, dict[str, SourcedObject]] = field(default_factory=dict)
    faults: list[ManifestError] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    """What was ignored or changed, with the number of occurrences."""
    followed: dict[tuple[str, str], SourcedObject] = field(default_factory=dict)
    """Workloads looked up in a live cluster, by kind and key. Their pods already exist."""
    replaced: dict[tuple[str, str], SourcedObject] = field(default_factory=dict)
    """Objects of a live cluster that a file describes differently, by kind and key."""
    scheduler_configs: list[tuple[JsonObject, Source]] = field(default_factory=list)
    """kube-scheduler configurations, which are not cluster objects."""

    def of(self, kind: str) -> Iterable[SourcedObject]:
        """Return the objects of a kind, in the order they were read."""
        return self.by_kind.get(kind, {}).values()

    def all(self) -> Iterator[SourcedObject]:
        """Yield every object."""
        for items in self.by_kind.values():
            yield from items.values()

    def note(self, text: str) -> None:
        """Record a remark for the user that is not a fault."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def add(self, value: Any, source: Source, *, yields: bool = False) -> None:
        """Add the objects of one document.

        Args:
            value: the parsed document.
            source: where the document was read.
            yields: skip an object that already exists, instead of reporting a duplicate.
        """
        for body in self._opened(value, source, _MAX_LIST_DEPTH):
            if body.get("kind") == scheduler_config.KIND:
                self.scheduler_configs.append((body, source))
                continue
            item = self._identify(body, source)
            if item is None:
                continue
            items = self.by_kind.setdefault(item.kind, {})
            if item.key not in items:
                items[item.key] = item
            elif yields:
                self.replaced[item.kind, item.key] = item
            else:
                self.faults.append(item.fault("", f"appears twice, first in {items[item.key].source}: keep one"))

    def _opened(self, value: Any, source: Source, deeper: int) -> Iterator[JsonObject]:
        if not isinstance(value, dict):
            type_text = {list: "a list", str: "a text", type(None): "nothing"}.get(type(value), "a single value")
            self.faults.append(ManifestError(source, f"is {type_text}, not a Kubernetes object"))
            return
        kind = value.get("kind")
        if not (isinstance(kind, str) and kind.endswith("List") and ("items" in value or kind == "List")):
            yield value
            return
        items = value.get("items")
        if not isinstance(items, list) and items is not None:
            self.faults.append(ManifestError(source, "is not a list", kind, "items"))
        elif deeper == 0:
            self.faults.append(ManifestError(source, "lists are nested in lists too deeply", kind, "items"))
        else:
            defaults = (
                {"kind": kind.removesuffix("List"), "apiVersion": value.get("apiVersion")} if kind != "List" else {}
            )
            for item in items or ():
                yield from self._opened({**defaults, **item} if isinstance(item, dict) else item, source, deeper - 1)

    def _identify(self, body: JsonObject, source: Source) -> SourcedObject | None:
        """Return the object with its kind, or None if its kind is not read or a fault prevents reading it."""
        kind, version, metadata = body.get("kind"), body.get("apiVersion"), body.get("metadata")
        for name, value in (("kind", kind), ("apiVersion", version)):
            if not isinstance(value, str) or not value:
                self.faults.append(
                    ManifestError(source, "is required" if value in (None, "") else "is not a string", path=name)
                )
                return None
        assert isinstance(kind, str)
        assert isinstance(version, str)
        stated_name = metadata.get("name") if isinstance(metadata, dict) else None
        subject = f"{kind} {stated_name}" if isinstance(stated_name, str) else kind
        group, _, number = version.rpartition("/")
        if kind in VERSIONS and GROUPS[kind] == group and number not in VERSIONS[kind]:
            known_versions = " or ".join(f"{group}/{known_versions}" for known_versions in VERSIONS[kind])
            self.faults.append(
                ManifestError(
                    source, f"{version} is not a supported version: write {known_versions}", subject, "apiVersion"
                )
            )
            return None
        if GROUPS.get(kind) != group or (kind == "ConfigMap" and not is_settings(body)):
            self.note(f"{kind} ({version}) is not read")
            return None
        if not isinstance(metadata, dict):
            self.faults.append(ManifestError(source, "is required", subject, "metadata"))
            return None
        for part in ("name", "namespace"):
            value = metadata.get(part)
            if value is None and part == "namespace":
                continue
            if not isinstance(value, str) or len(value) > 253 or not _NAME.fullmatch(value):
                problem = "is required" if value is None else _refused(value)
                self.faults.append(ManifestError(source, problem, subject, f"metadata.{part}"))
                return None
        return SourcedObject(kind, body, source)


def _refused(name: Any) -> str:
    """Say why the API server does not accept a name."""
    shown = repr(str(name)[:80])
    if isinstance(name, str) and name != name.lower() and _NAME.fullmatch(name.lower()):
        return f"{shown} is not the name of an object: write it in lower case"
    return f"{shown} is not the name of an object: write lower-case letters, digits, - and ., at most 253"
