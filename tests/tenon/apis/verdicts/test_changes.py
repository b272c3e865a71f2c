"""What the API server lets nobody change (NP-V1, NP-11, NC-01)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, Resource
from sandbox.cluster import Sandbox
from tests.sandbox_clients import administrator
from tests.tenon.apis.case import NODECLAIM, NODEPOOL, edited

NAME = "unchanging"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    """A cluster that has one NodePool and one NodeClaim."""
    nodepools = ((NODEPOOLS, edited(NODEPOOL, {"limits": {"cpu": 1}})), (NODECLAIMS, NODECLAIM))
    async with administrator(sandbox) as client:
        for resource, body in nodepools:
            await client.create(resource, body | {"metadata": {"name": NAME}})
        yield client
        for resource, _ in nodepools:
            await client.delete(resource, NAME)


@pytest.mark.parametrize(
    ("resource", "spec", "why"),
    [
        (NODEPOOLS, {"replicas": 1, "limits": None}, "replicas cannot be added to or removed from a NodePool"),
        (NODEPOOLS, {"template": {"spec": {"nodeClassRef": {"group": "a.b"}}}}, "nodeClassRef.group cannot be changed"),
        (NODEPOOLS, {"template": {"spec": {"nodeClassRef": {"kind": "A"}}}}, "nodeClassRef.kind cannot be changed"),
        (NODEPOOLS, {"template": {"spec": {"nodeClassRef": {"name": "other"}}}, "weight": 5}, ""),
        (NODECLAIMS, {"expireAfter": "1h"}, "the spec of a NodeClaim cannot be changed"),
        (NODECLAIMS, {"terminationGracePeriod": "1h"}, "the spec of a NodeClaim cannot be changed"),
    ],
)
async def test_the_api_server_refuses_this_change(
    kube: Kube, resource: Resource, spec: dict[str, Any], why: str
) -> None:
    answer = ""
    try:
        await kube.request(
            "PATCH",
            resource.path(NAME),
            query={"dryRun": "All"},
            body={"spec": spec},
            content_type="application/merge-patch+json",
        )
    except ApiError as error:
        answer = error.message
    assert why in answer
    assert bool(answer) == bool(why)
