"""Records the requests to the API server as spans, without what they say. Watches have none, because they only wait."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from activities.tracing import spans
from activities.tracing.catalogue import Attribute

_NAMES = {"pods": Attribute.POD, "nodes": Attribute.NODE, "nodeclaims": Attribute.NODECLAIM}
_VERBS = {"POST": "create", "PUT": "update"}


async def recorded(call: Awaitable[Any], method: str, path: str, query: Mapping[str, str] | None) -> Any:
    """Await the answer to a request, and record it if the current work is recorded."""
    if not spans.is_recording() or "watch" in (query or {}):
        return await call
    name, attributes = described(method, path)
    span = spans.request(name, attributes, reads=method == "GET")
    if span is None:
        return await call
    try:
        answer = await call
    except Exception as error:
        span.fail(error)
        raise
    else:
        span.set({Attribute.HTTP_STATUS: int(answer.status)})
        if answer.status >= 400:
            span.set({Attribute.ERROR: str(answer.status)})
            span.fail(answer.reason or "")
        return answer
    finally:
        span.end()


def described(method: str, path: str) -> tuple[str, dict[Attribute, spans.Value]]:
    """The name and the attributes of the span of a request."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    kind, name, subresource = (*rest, "", "", "")[:3]
    resource = f"{kind}/{subresource}" if subresource else kind
    verb = _VERBS.get(method) or (("get" if name else "list") if method == "GET" else method.lower())
    attributes: dict[Attribute, spans.Value] = {
        Attribute.HTTP_METHOD: method,
        Attribute.RESOURCE: resource,
        Attribute.NAMESPACE: namespace,
        _NAMES.get(kind, Attribute.OBJECT): name,
    }
    return f"{verb} {resource}", attributes
