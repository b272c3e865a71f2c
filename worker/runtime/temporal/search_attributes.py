"""The workflows' search attributes: checks at the start that they exist, and adds missing ones if the worker may.

Temporal Cloud lets no worker list or add them. There, a query that names an attribute shows whether it exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from worker.runtime.temporal.temporal_client import TemporalError
from worker.runtime.temporal.temporal_cloud import is_cloud
from workflows.names import SEARCH_ATTRIBUTES

log = loggers.TEMPORAL

Keys = Collection[SearchAttributeKey[Any]]
NOT_ALLOWED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.UNIMPLEMENTED)


async def ensure_search_attributes(client: Client) -> None:
    """Add the search attributes that are missing.

    Raises:
        TemporalError: some are missing and cannot be added, or Temporal does not list them. The message contains the
            command to run.
    """
    missing = await missing_search_attributes(client)
    if not missing:
        return
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes={key.name: IndexedValueType.ValueType(key.indexed_value_type) for key in missing},
            )
        )
    except RPCError as error:
        why = "this worker may not add them"
        if error.status not in NOT_ALLOWED:
            why = f"Temporal failed to add them ({error.message})"
        raise TemporalError(
            f"Temporal namespace {client.namespace} lacks search attributes and {why}; run: "
            + create_command(missing, client)
        ) from None
    log.info("The worker added search attributes", extra={"search-attributes": _names(missing)})


def create_command(missing: Keys, client: Client) -> str:
    """Return the command that adds search attributes to the client's namespace."""
    types = {key.name: _type_name(key.indexed_value_type) for key in missing}
    if is_cloud(client):
        arguments = " ".join(f"--search-attribute {name}={kind}" for name, kind in types.items())
        return f"tcld namespace search-attributes add --namespace {client.namespace} {arguments}"
    arguments = " ".join(f"--name {name} --type {kind}" for name, kind in types.items())
    return f"temporal operator search-attribute create {arguments} --namespace {client.namespace}"


async def missing_search_attributes(client: Client) -> Keys:
    """Return the attributes that are known to be missing.

    Raises:
        TemporalError: Temporal does not list them.
    """
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status not in NOT_ALLOWED:
            raise TemporalError(
                f"Temporal namespace {client.namespace} does not list its search attributes ({error.message}): "
                "check that the server is up and run: temporal operator search-attribute list "
                f"--namespace {client.namespace}"
            ) from None
        return await _missing_by_queries(client)
    return [key for key in SEARCH_ATTRIBUTES if key.name not in listed.custom_attributes]


async def _missing_by_queries(client: Client) -> Keys:
    keys: Keys = SEARCH_ATTRIBUTES
    answers = await asyncio.gather(*(_asked(client, key) for key in keys))
    keys_and_answers = list(zip(keys, answers, strict=True))
    unknown = [key for key, exists in keys_and_answers if exists is None]
    if unknown:
        log.warning(
            "The worker cannot check for its search attributes in Temporal, and workflows cannot start without them",
            extra={"namespace": client.namespace, "search-attributes": _names(unknown)},
        )
    return [key for key, exists in keys_and_answers if exists is False]


async def _asked(client: Client, key: SearchAttributeKey[Any]) -> bool | None:
    """Whether a query may use the attribute. None if queries get no answer."""
    try:
        await client.count_workflows(f"{key.name} IS NOT NULL")
    except RPCError as error:
        return False if error.status is RPCStatusCode.INVALID_ARGUMENT else None
    return True


def _names(keys: Iterable[SearchAttributeKey[Any]]) -> list[str]:
    return [key.name for key in keys]


def _type_name(value: int) -> str:
    name: str = IndexedValueType.Name(IndexedValueType.ValueType(value))
    return "".join(map(str.capitalize, name.removeprefix("INDEXED_VALUE_TYPE_").split("_")))
