"""Namespaces on a Temporal server: the sandbox's own, and those that a test adds, as an administrator would."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from sandbox.temporal import RETENTION_HOURS
from worker.runtime.temporal.search_attributes import ensure_search_attributes

POLL_SECONDS = 0.1


async def until_served(address: str, *, tls: TLSConfig | bool = False) -> Client:
    """Wait until a server answers there. Returns a client without a namespace of its own."""
    while True:
        try:
            client = await Client.connect(address, tls=tls)
            if await client.service_client.check_health():
                return client
        except (RPCError, RuntimeError):
            pass
        await asyncio.sleep(POLL_SECONDS)


async def create(
    address: str, namespace: str, *, retention: timedelta = timedelta(hours=RETENTION_HOURS), attributes: bool = True
) -> None:
    """Create a namespace with Tenon's search attributes, unless it exists, and return when it can be used."""
    client = await Client.connect(address, namespace=namespace)
    period = Duration()
    period.FromTimedelta(retention)
    try:
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=period)
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    await _until_known(client)
    if attributes:
        await ensure_search_attributes(client)


async def _until_known(client: Client) -> None:
    """Wait until the server has read the new namespace."""
    while True:
        try:
            await client.count_workflows()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        else:
            return
        await asyncio.sleep(POLL_SECONDS)
