"""A small API server in memory: merge patches, resource versions, finalizers, graceful deletion, evictions."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from activities.kubernetes.client import EvictionAnswer
from activities.kubernetes.errors import ApiError, ConflictError, ForbiddenError
from activities.kubernetes.resources import PODS, Resource
from activities.kubernetes.shared_list import Shape
from tenon.apis import labels
from tenon.kube.event_reasons import EventType, Published
from tenon.kube.pool_reason_json import decode
from tenon.kube.pool_reasons import NoPlace

Object = dict[str, Any]
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def stamp(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class Clock:
    """Time that only `sleep` moves; ``on_tick`` is the rest of the world."""

    def __init__(self) -> None:
        self.instant = START
        self.slept = 0
        self.on_tick: list[Callable[[], None]] = []

    def __call__(self) -> datetime:
        return self.instant

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0, "a wait of no length never ends"
        self.slept += 1
        assert self.slept < 2000, "the step does not end"
        self.instant += timedelta(seconds=seconds)
        for tick in self.on_tick:
            tick()


class Recorder:
    """Events, as (kind, name, reason, message)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []
        self.uids: dict[tuple[str, str], str] = {}
        """The UID with which the last event named its object, by kind and name."""
        self.no_place: dict[str, NoPlace] = {}
        """By the name of a pod, what its last event says for programs of why no node is bought for it."""

    async def publish(
        self,
        regarding: Mapping[str, Any],
        reason: Published,
        message: str,
        type_: EventType | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> bool:
        name = regarding["metadata"]["name"]
        self.events.append((regarding["kind"], name, reason, message))
        self.uids[regarding["kind"], name] = regarding["metadata"].get("uid", "")
        if (why := decode((annotations or {}).get(labels.NO_PLACE))) is not None:
            self.no_place[name] = why
        return True

    def reasons(self) -> list[str]:
        return [event[2] for event in self.events]


class FakeKube:
    """Objects by (plural, namespace, name). ``calls`` lists every write; ``kubelet`` lets terminating pods end.

    ``gets`` lists what was read by name, ``listed`` what was listed: plural, field selector, resource version.
    ``undeletable`` names what an admission policy guards. ``watched`` is the newest version that watches have told,
    and ``watched_next`` what it is after each read that had to wait for more. While ``shows_pods`` is False, a watch of
    pods stays silent; `show_pods` ends that.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.calls: list[tuple[str, ...]] = []
        self.gets: list[tuple[str, str]] = []
        self.listed: list[tuple[str, str, str]] = []
        self.answers: dict[str, EvictionAnswer] = {}
        self.unbindable: set[str] = set()
        self.forbidden: set[str] = set()
        self.undeletable: set[str] = set()
        self.before_patch: list[Callable[[], None]] = []
        self.kubelet = True
        self.watched = sys.maxsize
        self.watched_next: list[int] = []
        self.shows_pods = True
        self._news = asyncio.Event()
        self._versions = itertools.count(1)
        clock.on_tick.append(self.tick)

    def add(self, resource: Resource, body: Object) -> Object:
        stored = copy.deepcopy(body)
        metadata = stored["metadata"]
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        metadata.setdefault("creationTimestamp", stamp(START))
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        stored |= {"apiVersion": resource.api_version, "kind": resource.kind}
        self._store(resource, stored)
        return copy.deepcopy(stored)

    def tick(self) -> None:
        """The kubelets end pods whose grace is over."""
        for key, obj in list(self.objects.items()):
            end = obj["metadata"].get("deletionTimestamp")
            finalizers = obj["metadata"].get("finalizers")
            if key[0] == "pods" and end and not finalizers and self.kubelet and stamp(self.clock()) >= end:
                del self.objects[key]

    def without_gate(self) -> FakeKube:
        return self

    def names(self, resource: Resource) -> list[str]:
        return sorted(name for plural, _, name in self.objects if plural == resource.plural)

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, not_older_than: str = ""
    ) -> Object | None:
        assert bool(namespace) == resource.namespaced
        self.gets.append((resource.plural, name))
        if not_older_than and int(not_older_than) > self.watched:
            watched, self.watched = self.watched, self.watched_next.pop(0) if self.watched_next else self.watched
            raise ApiError(504, "Timeout", f"Too large resource version: {not_older_than}, current: {watched}")
        return copy.deepcopy(self.objects.get((resource.plural, namespace, name)))

    async def shared_list(self, resource: Resource, shape: type[Shape]) -> list[Shape]:
        return [msgspec.convert(obj, shape) for obj in await self.list(resource)]

    async def list_as(self, resource: Resource, shape: type[Shape], **query: str) -> list[Shape]:
        return [msgspec.convert(obj, shape) for obj in await self.list(resource, **query)]  # type: ignore[arg-type]

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
    ) -> list[Object]:
        self.listed.append((resource.plural, field_selector, resource_version))
        objs = [
            copy.deepcopy(obj)
            for (plural, space, _), obj in sorted(self.objects.items())
            if plural == resource.plural and (not namespace or space == namespace)
        ]
        if label_selector:
            label, _, value = label_selector.partition("=")
            values = ((obj, (obj["metadata"].get("labels") or {}).get(label)) for obj in objs)
            objs = [obj for obj, present in values if (present == value if value else present is not None)]
        if field_selector:
            field, value = field_selector.split("=")
            assert (resource, field) == (PODS, "spec.nodeName")
            objs = [pod for pod in objs if pod["spec"].get("nodeName", "") == value]
        return objs

    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, idle_seconds: float = 330.0
    ) -> AsyncIterator[bytes]:
        """A watch of the pods of one node, each of which it shows once."""
        assert path == PODS.path()
        assert query is not None
        field, _, node = query["fieldSelector"].partition("=")
        assert (field, idle_seconds > 0) == ("spec.nodeName", True)
        names: set[str] = set()
        while True:
            self._news.clear()
            for (plural, _, _), obj in sorted(self.objects.items()):
                bound = plural == PODS.plural and obj["spec"].get("nodeName") == node
                if self.shows_pods and bound and obj["metadata"]["uid"] not in names:
                    names.add(obj["metadata"]["uid"])
                    yield json.dumps({"type": "ADDED", "object": obj}).encode()
            await self._news.wait()

    def show_pods(self) -> None:
        """Let watches of pods show what they held back."""
        self.shows_pods = True
        self._news.set()

    async def create(self, resource: Resource, body: Object, namespace: str = "") -> Object:
        name = body["metadata"]["name"]
        self.calls.append(("create", resource.plural, name))
        if (resource.plural, namespace, name) in self.objects:
            raise ConflictError(409, "AlreadyExists", f"{name} already exists")
        return self.add(resource, body)

    async def patch(
        self, resource: Resource, name: str, patch: Object, *, namespace: str = "", subresource: str = ""
    ) -> Object | None:
        if self.before_patch:
            self.before_patch.pop(0)()
        key = (resource.plural, namespace, name)
        present = self.objects.get(key)
        if present is None:
            return None
        metadata = dict(patch.get("metadata") or {})
        version = metadata.pop("resourceVersion", None)
        if version is not None and version != present["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "the object has been modified")
        if subresource == "status":
            body: Object = {"status": patch.get("status") or {}}
        else:
            body = {field: value for field, value in patch.items() if field not in ("status", "metadata")}
            body["metadata"] = metadata
        self.calls.append(("patch", resource.plural, name, subresource))
        updated: Object = merged(present, body)
        added = set(updated["metadata"].get("finalizers") or ()) - set(present["metadata"].get("finalizers") or ())
        assert not (present["metadata"].get("deletionTimestamp") and added), "no finalizer on what is being deleted"
        self._store(resource, updated)
        self._collect(key)
        return copy.deepcopy(updated)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        grace_seconds: int | None = None,
        uid: str | None = None,
    ) -> bool:
        key = (resource.plural, namespace, name)
        present = self.objects.get(key)
        if present is None or (uid is not None and uid != present["metadata"]["uid"]):
            return False
        self.calls.append(("delete", resource.plural, name, str(grace_seconds)))
        if name in self.undeletable:
            raise ForbiddenError(403, "Forbidden", "denied by policy")
        metadata = present["metadata"]
        if resource is PODS:
            own = present["spec"].get("terminationGracePeriodSeconds", 30)
            grace = own if grace_seconds is None else grace_seconds
            if grace == 0 and not metadata.get("finalizers"):
                del self.objects[key]
                return True
            began = self.clock()
            if metadata.get("deletionTimestamp"):
                granted = metadata["deletionGracePeriodSeconds"]
                began = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=granted)
                grace = min(grace, granted)
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = stamp(began + timedelta(seconds=grace))
        else:
            metadata.setdefault("deletionTimestamp", stamp(self.clock()))
        self._store(resource, present)
        self._collect(key)
        return True

    async def evict(
        self, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> EvictionAnswer:
        self.calls.append(("evict", name))
        refusal = self.answers.get(f"{namespace}/{name}")
        if refusal is not None:
            return refusal
        removal = not await self.delete(PODS, name, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        return EvictionAnswer("gone" if removal else "evicted")

    async def bind(self, namespace: str, name: str, node: str, uid: str) -> bool:
        self.calls.append(("bind", name, node))
        pod = self.objects.get(("pods", namespace, name))
        if name in self.forbidden:
            raise ApiError(403, "Forbidden", f"admission webhook denied the request: {name}")
        if pod is None or pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName") or name in self.unbindable:
            return False
        pod["spec"]["nodeName"] = node
        self._news.set()
        return True

    def _store(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[(resource.plural, metadata.get("namespace", ""), metadata["name"])] = obj

    def _collect(self, key: tuple[str, str, str]) -> None:
        metadata = self.objects[key]["metadata"]
        if key[0] != "pods" and metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.objects[key]


def merged(target: Any, patch: Any) -> Any:
    """What a merge patch (RFC 7386) makes of the target."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
