"""The start on a Temporal that lets no worker list or add search attributes, as Temporal Cloud does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.worker.dev_server import DevServer
from tests.worker.grpc_front import front
from tests.workflows.waiting import until
from worker.runtime.temporal.search_attributes import ensure_search_attributes
from worker.runtime.temporal.temporal_client import TemporalError
from workflows.names import SEARCH_ATTRIBUTES

pytestmark = pytest.mark.integration

OPERATOR, COUNT = "OperatorService", "CountWorkflowExecutions"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[DevServer]:
    dev_server = DevServer(tmp_path)
    await dev_server.start()
    try:
        yield dev_server
    finally:
        await dev_server.stop()


async def add(client: Client, names: set[str]) -> None:
    """What an administrator does before the first start."""
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(
            namespace=client.namespace,
            search_attributes={
                key.name: IndexedValueType.ValueType(key.indexed_value_type)
                for key in SEARCH_ATTRIBUTES
                if key.name in names
            },
        )
    )

    async def known() -> bool:
        try:
            for name in names:
                await client.count_workflows(f"{name} IS NOT NULL")
        except RPCError:
            return False
        return True

    await until(known)


@pytest.mark.parametrize("status", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED])
async def test_attributes_that_exist_are_found_where_they_may_not_be_listed(
    server: DevServer, status: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker starts, and says nothing."""
    await add(await server.connect(), {key.name for key in SEARCH_ATTRIBUTES})
    async with front(server.address, {OPERATOR: status}) as address:
        await ensure_search_attributes(await Client.connect(address))
    assert "search attributes" not in caplog.text


async def test_only_the_missing_attributes_are_named_where_they_may_not_be_listed(server: DevServer) -> None:
    names = [key.name for key in SEARCH_ATTRIBUTES]
    await add(await server.connect(), set(names[:-2]))
    async with front(server.address, {OPERATOR: grpc.StatusCode.PERMISSION_DENIED}) as address:
        with pytest.raises(TemporalError) as refused:
            await ensure_search_attributes(await Client.connect(address))
    text = str(refused.value)
    assert "temporal operator search-attribute create --name TenonPrice --type Double" in text
    assert [name for name in names if name in text] == names[-2:]


async def test_without_answers_about_attributes_the_worker_starts_with_a_warning(
    server: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    await server.connect()
    denied = {OPERATOR: grpc.StatusCode.PERMISSION_DENIED, COUNT: grpc.StatusCode.PERMISSION_DENIED}
    async with front(server.address, denied) as address:
        await ensure_search_attributes(await Client.connect(address))
    (warning,) = [record for record in caplog.records if record.name == "worker.temporal"]
    assert "cannot check for its search attributes in Temporal" in warning.message
    assert "TenonBlocked" in vars(warning)["search-attributes"]


@pytest.mark.parametrize("method", ["ListSearchAttributes", "AddSearchAttributes"])
async def test_a_fault_of_temporal_is_one_sentence_that_says_what_to_do(server: DevServer, method: str) -> None:
    client = await server.connect()
    async with front(server.address, {method: grpc.StatusCode.INTERNAL}) as address:
        with pytest.raises(TemporalError) as refused:
            await ensure_search_attributes(await Client.connect(address))
    text = str(refused.value)
    assert text.startswith(f"Temporal namespace {client.namespace} ")
    assert "Request unauthorized." in text
    assert ("run: temporal operator search-attribute " + {"L": "list", "A": "create"}[method[0]]) in text


async def test_missing_attributes_are_added_where_that_is_allowed(server: DevServer) -> None:
    client = await server.connect()
    await ensure_search_attributes(client)
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    assert {key.name for key in SEARCH_ATTRIBUTES} <= set(listed.custom_attributes)
