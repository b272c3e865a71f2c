"""The connection to Temporal: made with the standard environment, checked for the search attributes it needs."""

from __future__ import annotations

import asyncio
import logging
import re

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from worker.core_logs import runtime
from worker.outage import Outage, ReadinessLike
from worker.plugin import TenonPlugin
from workflows.names import SEARCH_ATTRIBUTES

log = logging.getLogger("worker.temporal")

DEFAULT_ADDRESS = "localhost:7233"
CONNECT_TIMEOUT = 10.0


class TemporalError(Exception):
    """Temporal cannot be used, in one sentence."""


async def connect(*, tracing: bool = False) -> Client:
    """A client from the standard environment (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS, API key, profiles).

    Raises:
        TemporalError: the address does not answer, or the namespace is unknown.
    """
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", DEFAULT_ADDRESS)
    address = config["target_host"]
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            client = await Client.connect(**config, runtime=runtime(), plugins=[TenonPlugin(tracing=tracing)])
    except (RuntimeError, RPCError, TimeoutError, ValueError) as error:
        raise TemporalError(
            f"Temporal at {address} cannot be reached ({readable(error)}): "
            "check TEMPORAL_ADDRESS and that the server is up."
        ) from None
    return client


async def ensure_search_attributes(client: Client) -> None:
    """Add the search attributes that are missing.

    Raises:
        TemporalError: some are missing and this client may not add them; the sentence holds the command that does.
    """
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        missing = [key for key in SEARCH_ATTRIBUTES if key.name not in listed.custom_attributes]
        if not missing:
            return
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes={key.name: IndexedValueType.ValueType(key.indexed_value_type) for key in missing},
            )
        )
        log.info("added search attributes", extra={"names": [key.name for key in missing]})
    except RPCError as error:
        if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
            raise TemporalError(f"Temporal does not tell its search attributes: {error.message}.") from None
        raise TemporalError(
            f"Temporal namespace {client.namespace} lacks search attributes and this worker may not add them; run: "
            + "temporal operator search-attribute create "
            + " ".join(f"--name {key.name} --type {_type_name(key.indexed_value_type)}" for key in SEARCH_ATTRIBUTES)
        ) from None


def _type_name(value: int) -> str:
    name: str = IndexedValueType.Name(IndexedValueType.ValueType(value))
    return name.removeprefix("INDEXED_VALUE_TYPE_").capitalize()


async def watch_temporal(
    client: Client, readiness: ReadinessLike, period: float = 10.0, patience: float = 10.0
) -> None:
    """Keep asking Temporal whether it serves; while it does not, the process is unready and says so once a minute.

    ``period`` is the pause between two questions, ``patience`` the wait for an answer, both in seconds.
    """
    outage = Outage(
        f"Temporal at {client.service_client.config.target_host}",
        "nodes live on, and nothing new is decided until it is back",
        log,
    )
    readiness.checks.append(outage)
    while True:
        why = await _why_away(client, patience)
        # Servers close connections that have grown old, and a question under way goes down with one.
        outage.note(await _why_away(client, patience) if why else "")
        await asyncio.sleep(period)


async def _why_away(client: Client, seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            healthy = await client.service_client.check_health()
    except (RPCError, RuntimeError, TimeoutError) as error:
        return readable(error)
    return "" if healthy else "it says that it does not serve"


_QUOTED = re.compile(r'(?:message|error): "([^"]+)"')
_PLAIN = {
    "tcp connect error": "no connection can be made",
    "transport error": "the connection broke",
    "dns error": "the name of the host is not known",
}


def readable(error: Exception) -> str:
    """What went wrong, without the layers of the library that it came through."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = str(error).strip()
    quoted = _QUOTED.findall(text)
    if quoted:
        return str(quoted[-1]).rstrip(".")
    first = text.splitlines()[0] if text else type(error).__name__
    return _PLAIN.get(first, first).rstrip(".")
