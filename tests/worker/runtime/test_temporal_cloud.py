"""The commands for Temporal Cloud, which refuses those of a server of one's own."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from cli.diagnosis import temporal
from tests.docs.documents import ROOT, text_of
from worker.runtime.temporal.search_attributes import create_command
from workflows.names import SEARCH_ATTRIBUTES

NAMESPACE = "orders.a1b2c"
CLOUD = "eu-central-1.aws.api.temporal.io:7233"
ADD = f"tcld namespace search-attributes add --namespace {NAMESPACE} --search-attribute "


async def client_of(address: str, **options: Any) -> Client:
    """A client that has not connected yet."""
    return await Client.connect(address, namespace=NAMESPACE, lazy=True, **options)


@pytest.mark.parametrize(
    ("address", "options"),
    [
        (CLOUD, {"api_key": "key"}),
        (f"{NAMESPACE}.tmprl.cloud:7233", {"tls": True}),
        ("temporal.internal:7233", {"tls": TLSConfig(domain="aws-eu-central-1.region.tmprl.cloud")}),
    ],
    ids=["of a region", "of a namespace", "by PrivateLink"],
)
async def test_search_attributes_are_added_by_tcld(address: str, options: dict[str, Any]) -> None:
    command = create_command(SEARCH_ATTRIBUTES[-2:], await client_of(address, **options))
    assert command == f"{ADD}TenonPrice=Double --search-attribute TenonSaving=Double"


@pytest.mark.parametrize("address", ["temporal-frontend.temporal:7233", "localhost:7233", "tmprl.cloud.internal:7233"])
async def test_other_servers_have_an_operator_service(address: str) -> None:
    command = create_command(SEARCH_ATTRIBUTES[-1:], await client_of(address))
    assert command == (
        f"temporal operator search-attribute create --name TenonSaving --type Double --namespace {NAMESPACE}"
    )


async def test_the_documents_have_the_whole_command() -> None:
    text = text_of(ROOT / "docs" / "operations.md").replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if line.startswith("    tcld namespace search-attributes add")]
    command = create_command(SEARCH_ATTRIBUTES, await client_of(CLOUD))
    assert line.split() == command.replace(NAMESPACE, "NAMESPACE.ACCOUNT").split()


@pytest.mark.parametrize(("address", "tool"), [(CLOUD, "tcld "), ("temporal.internal:7233", "temporal operator ")])
async def test_the_remedies_of_doctor_are_commands_that_the_server_takes(
    monkeypatch: pytest.MonkeyPatch, address: str, tool: str
) -> None:
    client = await client_of(address)
    absent = RPCError("no such namespace", RPCStatusCode.NOT_FOUND, b"")
    answers: list[Exception | None] = [absent, None]

    async def connect() -> Client:
        return client

    async def count(*_: Any) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    async def missing(*_: Any) -> Any:
        return SEARCH_ATTRIBUTES[:1]

    monkeypatch.setattr(temporal, "connect", connect)
    monkeypatch.setattr(client, "count_workflows", count)
    monkeypatch.setattr(temporal, "missing_search_attributes", missing)
    (namespace,) = await temporal.check_temporal()
    assert f"run: {tool}namespace create" in namespace.remedy
    _, attributes = await temporal.check_temporal()
    assert f"run: {tool}" in attributes.remedy
    assert ("start a worker" in attributes.remedy) == (address != CLOUD)
