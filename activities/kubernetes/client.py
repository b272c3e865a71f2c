"""The Kubernetes API as Tenon uses it: a few verbs over plain dictionaries.

A missing object is not an error here, because any object may vanish between two requests. The methods that read, patch
or delete report it in the return value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from activities.gate import Gate
from activities.kubernetes.access import Access
from activities.kubernetes.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    TooManyRequestsError,
)
from activities.kubernetes.resources import PODS, Resource
from activities.kubernetes.shared_list import Shape, SharedList, page_decoder
from activities.kubernetes.transport import Transport
from tenon.apis.json_object import JsonObject

FIELD_MANAGER = "tenon"
PAGE = 500
"""The number of objects in one page of a list."""

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """The outcome of an eviction. ``blocked``: a PodDisruptionBudget forbids it now, as ``message`` says.

    ``error``: the API server could not decide (several budgets on one pod, an overloaded server). Try again later.
    """

    outcome: Literal["evicted", "gone", "blocked", "error"]
    message: str = ""
    code: int = 200
    """The HTTP status of the answer."""
    retry_after: float = 0.0
    """Seconds after which the API server wants to be asked again; 0 if it did not say."""


class Kube(Transport):
    """A connection to one cluster's API server.

    Every method may raise `ApiError`, or its subclass `ApiUnreachableError` if there is no answer.
    """

    def __init__(self, access: Access, *, qps: float, burst: int, gate: Gate | None = None) -> None:
        super().__init__(access, qps=qps, burst=burst, gate=gate)
        self._shared: dict[tuple[Resource, type], SharedList[Any]] = {}

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, not_older_than: str = ""
    ) -> JsonObject | None:
        """The object, or None if it does not exist.

        With ``not_older_than``, a resource version, the API server answers from the cache that it also serves watches
        from. If the cache does not have the version within three seconds, the error has status 504.
        """
        query = {"resourceVersion": not_older_than} if not_older_than else None
        try:
            return _object(await self.request("GET", resource.path(name, namespace), query=query))
        except NotFoundError:
            return None

    async def shared_list(self, resource: Resource, shape: type[Shape]) -> list[Shape]:
        """All objects, reduced to ``shape``. Concurrent callers share one list request; see `SharedList`."""
        key = (resource, shape)
        if key not in self._shared:

            async def page(token: str) -> bytes:
                query = {"limit": str(PAGE), "continue": token}
                return await self.request("GET", resource.path(), query=query)

            self._shared[key] = SharedList(shape, page)
        return await self._shared[key].read()

    async def list_as(
        self,
        resource: Resource,
        shape: type[Shape],
        *,
        namespace: str = "",
        field_selector: str = "",
        resource_version: str = "",
    ) -> list[Shape]:
        """All objects that match, reduced to ``shape``, in one page; see `list`."""
        options = {"fieldSelector": field_selector, "resourceVersion": resource_version}
        query = {name: value for name, value in options.items() if value}
        page = await self.request("GET", resource.path(namespace=namespace), query=query)
        return page_decoder(shape).decode(page).items or []

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> list[JsonObject]:
        """All objects that match, in all namespaces if ``namespace`` is empty.

        ``limit`` is the page size; 0 reads one page. ``resource_version`` "0" reads the API server's cache, which may
        be stale. Such a list, or a list in one page, can use an index of the cache. A list in several pages may read
        all objects.
        """
        query = {"limit": str(limit)} if limit else {}
        if resource_version:
            query["resourceVersion"] = resource_version
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        items: list[JsonObject] = []
        while True:
            page = _object(await self.request("GET", resource.path(namespace=namespace), query=query))
            for item in page.get("items") or ():
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                items.append(item)
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return items
            query.pop("resourceVersion", None)  # the continue token contains it

    async def create(
        self, resource: Resource, body: JsonObject, namespace: str = "", *, subresource: str = ""
    ) -> JsonObject:
        """Create an object and return it as stored.

        Raises:
            ConflictError: an object of this name exists.
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
        patch: JsonObject | Sequence[JsonObject],
        *,
        namespace: str = "",
        subresource: str = "",
        kind: Literal["merge", "json", "apply"] = "merge",
        force: bool = True,
    ) -> JsonObject | None:
        """Patch an object and return it, or None if it does not exist.

        A merge patch with ``metadata.resourceVersion`` (or ``uid``) applies only to that state of the object. ``apply``
        creates the object if it does not exist. ``force`` affects only ``apply``: it takes over fields of other
        managers.

        Raises:
            ConflictError: the object has changed, or has another UID.
        """
        query = {"fieldManager": FIELD_MANAGER}
        if kind == "apply":
            query["force"] = "true" if force else "false"
            patch = _whole(resource, name, cast("JsonObject", patch))
        path = resource.path(name, namespace, subresource)
        try:
            return _object(await self.request("PATCH", path, query=query, body=patch, content_type=_PATCH_TYPES[kind]))
        except NotFoundError:
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
        """Request a deletion. Return False if the object is gone already or does not have this ``uid``."""
        options = _delete_options(uid, grace_seconds)
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            await self.request("DELETE", resource.path(name, namespace), body=options)
        except NotFoundError:
            return False
        except ConflictError:
            if uid is None:
                raise
            return False
        return True

    async def evict(
        self, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> EvictionAnswer:
        """Evict a pod, subject to its PodDisruptionBudgets."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, grace_seconds),
        }
        try:
            await self.request("POST", PODS.path(name, namespace, "eviction"), body=eviction)
        except NotFoundError:
            return EvictionAnswer("gone", code=404)
        except ConflictError as error:
            return EvictionAnswer("gone", code=409) if uid else EvictionAnswer("error", error.message, 409)
        except TooManyRequestsError as error:
            # An overloaded server also answers 429, but names no budget.
            outcome: Literal["blocked", "error"] = "blocked" if error.budgets else "error"
            return EvictionAnswer(outcome, "; ".join(error.budgets) or error.message, 429, error.retry_after)
        except ApiError as error:
            if error.status != 500:
                raise
            return EvictionAnswer("error", error.message, error.status)
        return EvictionAnswer("evicted")

    async def bind(self, namespace: str, name: str, node: str, uid: str) -> bool:
        """Bind the pod to a node. Return False if it is bound already, terminating, gone, or has another UID."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.request("POST", PODS.path(name, namespace, "binding"), body=binding)
        except (NotFoundError, ConflictError):
            return False
        return True


def _whole(resource: Resource, name: str, body: JsonObject) -> JsonObject:
    """The body with the fields that server-side apply requires."""
    metadata = {"name": name, **(body.get("metadata") or {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}


def _delete_options(uid: str | None, grace_seconds: int | None) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _object(content: bytes) -> JsonObject:
    try:
        answer: JsonObject = msgspec.json.decode(content)
    except msgspec.DecodeError as error:  # a proxy may answer with its own error page
        raise ApiError(200, "BadAnswer", f"the answer is not JSON: {content[:100]!r}") from error
    return answer
