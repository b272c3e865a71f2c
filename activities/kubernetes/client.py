"""The Kubernetes API as Tenon uses it: a few verbs over plain dictionaries.

Absence is an answer here, not an error: reading, patching or deleting what is gone says so in the return value, since
in a cluster every object may vanish between two looks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import msgspec

from activities.kubernetes.errors import ApiError, ApiUnreachable, Conflict, Forbidden, Gone, NotFound, TooManyRequests
from activities.kubernetes.resources import PODS, Resource
from activities.kubernetes.shared_list import Shape, SharedList
from activities.kubernetes.transport import REQUEST_SECONDS, Transport

__all__ = [
    "ApiError",
    "ApiUnreachable",
    "Conflict",
    "EvictionAnswer",
    "Forbidden",
    "Gone",
    "Kube",
    "NotFound",
    "Object",
    "Resource",
    "TooManyRequests",
]

Object = dict[str, Any]
"""A Kubernetes object as its JSON says it."""

FIELD_MANAGER = "tenon"
PAGE = 500
"""Objects in one page of a list."""

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """What became of an eviction. ``blocked``: a disruption budget forbids it now, as ``message`` says.

    ``error``: the API server could not decide (several budgets on one pod, an overloaded server); try later.
    """

    outcome: Literal["evicted", "gone", "blocked", "error"]
    message: str = ""
    code: int = 200
    """The status that the API server answered."""


class Kube:
    """A connection to one cluster's API server. Every method may raise `ApiError` (`ApiUnreachable` without answer)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._shared: dict[tuple[Resource, type], SharedList[Any]] = {}

    @classmethod
    async def connect(
        cls, kubeconfig: str | None = None, context: str | None = None, *, qps: float = 200.0, burst: int = 300
    ) -> Self:
        """Configures a client by a kubeconfig file or the pod's service account; sends nothing yet.

        Raises:
            ConfigError: there is no usable configuration.
        """
        return cls(await Transport.connect(kubeconfig, context, qps=qps, burst=burst))

    @property
    def host(self) -> str:
        """The base address of the API server."""
        return self._transport.host

    async def close(self) -> None:
        """Closes all connections."""
        await self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        """Any request; the body of a successful answer."""
        return await self._transport.request(
            method, path, query=query, body=body, content_type=content_type, seconds=seconds
        )

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, idle_seconds: float = 330.0
    ) -> AsyncIterator[bytes]:
        """The lines of a watch; fails when nothing comes for ``idle_seconds``."""
        return self._transport.stream(path, query, idle_seconds=idle_seconds)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """An object, or None when there is none."""
        try:
            return _object(await self.request("GET", resource.path(name, namespace)))
        except NotFound:
            return None

    async def shared_list(self, resource: Resource, shape: type[Shape]) -> list[Shape]:
        """All objects, cut down to ``shape``, in one list for all who ask at the same time; see `SharedList`."""
        key = (resource, shape)
        if key not in self._shared:

            async def page(token: str) -> bytes:
                query = {"limit": str(PAGE), "continue": token}
                return await self.request("GET", resource.path(), query=query)

            self._shared[key] = SharedList(shape, page)
        return await self._shared[key].read()

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> list[Object]:
        """All objects that match, read in pages of ``limit`` (0: in one); of all namespaces when none is given.

        ``resource_version`` "0" takes what the API server has in its cache, which may be old. Such a list, and a list
        in one page, reads an index of the cache where there is one; a list in pages may read all objects.
        """
        query = {"limit": str(limit)} if limit else {}
        if resource_version:
            query["resourceVersion"] = resource_version
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        items: list[Object] = []
        while True:
            page = _object(await self.request("GET", resource.path(namespace=namespace), query=query))
            for item in page.get("items") or ():
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                items.append(item)
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return items
            query.pop("resourceVersion", None)  # the token says it

    async def create(self, resource: Resource, body: Object, namespace: str = "", *, subresource: str = "") -> Object:
        """Creates an object and returns it as stored.

        Raises:
            Conflict: one of that name exists.
        """
        metadata = body.get("metadata") or {}
        path = resource.path(
            metadata.get("name", "") if subresource else "", namespace or metadata.get("namespace", ""), subresource
        )
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return _object(await self.request("POST", path, query={"fieldManager": FIELD_MANAGER}, body=whole))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        *,
        namespace: str = "",
        subresource: str = "",
        kind: Literal["merge", "json", "apply"] = "merge",
        force: bool = True,
    ) -> Object | None:
        """Patches an object and returns it, or None when it is gone.

        A merge patch that names ``metadata.resourceVersion`` (or ``uid``) applies to that state only. ``force`` takes
        over fields of other managers and matters to ``apply`` alone, which creates the object when there is none.

        Raises:
            Conflict: the object changed, or is another one.
        """
        query = {"fieldManager": FIELD_MANAGER}
        if kind == "apply":
            query["force"] = "true" if force else "false"
            patch = _whole(resource, name, cast("Object", patch))
        path = resource.path(name, namespace, subresource)
        try:
            return _object(await self.request("PATCH", path, query=query, body=patch, content_type=_PATCH_TYPES[kind]))
        except NotFound:
            return None

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        grace_seconds: int | None = None,
        uid: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> bool:
        """Asks for a deletion; False when the object, or the one with this ``uid``, is gone already."""
        options = _delete_options(uid, grace_seconds)
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            await self.request("DELETE", resource.path(name, namespace), body=options)
        except NotFound:
            return False
        except Conflict:
            if uid is None:
                raise
            return False
        return True

    async def evict(
        self, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> EvictionAnswer:
        """Evicts a pod through its disruption budgets."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, grace_seconds),
        }
        try:
            await self.request("POST", PODS.path(name, namespace, "eviction"), body=eviction)
        except NotFound:
            return EvictionAnswer("gone", code=404)
        except Conflict as error:
            return EvictionAnswer("gone", code=409) if uid else EvictionAnswer("error", error.message, 409)
        except TooManyRequests as error:
            budgets = [message for reason, message in error.causes if reason == "DisruptionBudget"]
            # An overloaded server answers 429 too, but names no budget.
            blocked = bool(budgets) or "disruption budget" in error.message
            return EvictionAnswer("blocked" if blocked else "error", "; ".join(budgets) or error.message, 429)
        except ApiError as error:
            if error.status != 500:
                raise
            return EvictionAnswer("error", error.message, error.status)
        return EvictionAnswer("evicted")

    async def bind(self, namespace: str, name: str, node: str, uid: str) -> bool:
        """Binds the pod of this ``uid`` to a node; False when it is bound, leaving, another one, or gone."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.request("POST", PODS.path(name, namespace, "binding"), body=binding)
        except (NotFound, Conflict):
            return False
        return True


def _whole(resource: Resource, name: str, body: Object) -> Object:
    """The body with what server-side apply insists on."""
    metadata = {"name": name, **(body.get("metadata") or {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}


def _delete_options(uid: str | None, grace_seconds: int | None) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _object(content: bytes) -> Object:
    try:
        answer: Object = msgspec.json.decode(content)
    except msgspec.DecodeError as error:  # a proxy in between may answer with a page of its own
        raise ApiError(200, "BadAnswer", f"the answer is no JSON: {content[:100]!r}") from error
    return answer
