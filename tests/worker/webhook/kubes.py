"""A Kube that holds its objects itself: for answers that no API server gives when one asks for them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from activities.kubernetes.resources import Resource
from tests.activities.node.fake_kube import merged

Object = dict[str, Any]


def refuses_nothing(verb: str, name: str) -> None:
    """Every write is done."""


class OwnKube:
    """Objects by the plural of their resource and their name; ``refuses`` raises before a write is done."""

    def __init__(self, *objects: tuple[Resource, Object]) -> None:
        self.objects = {(resource.plural, body["metadata"]["name"]): body for resource, body in objects}
        self.refuses: Callable[[str, str], None] = refuses_nothing

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        return copy.deepcopy(self.objects.get((resource.plural, name)))

    async def list(self, resource: Resource) -> list[Object]:
        return [copy.deepcopy(body) for (plural, _), body in self.objects.items() if plural == resource.plural]

    async def create(self, resource: Resource, body: Object, namespace: str | None = None) -> Object:
        self.refuses("create", body["metadata"]["name"])
        self.objects[resource.plural, body["metadata"]["name"]] = copy.deepcopy(body)
        return body

    async def patch(
        self, resource: Resource, name: str, patch: Object, *, namespace: str | None = None, subresource: str = ""
    ) -> Object:
        self.refuses("patch", name)
        body: Object = merged(self.objects[resource.plural, name], patch)
        self.objects[resource.plural, name] = body
        return body
