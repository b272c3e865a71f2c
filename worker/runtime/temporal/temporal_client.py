"""Connects to Temporal with its standard environment configuration, and checks its health.

By default Temporal's core writes colored text to stdout, one line for each retry of each poller: dozens a minute while
Temporal is unavailable. So its log goes to this process's log, and `watch_temporal` reports an outage in one sentence.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import PayloadCodec
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from tenon.errors import TenonError
from worker.log_rate_limit import LogRateLimiter
from worker.runtime.child_processes import TEMPORAL_METRICS
from worker.runtime.outage import Outage, ReadinessLike
from worker.runtime.temporal.encrypted_payloads import ENCRYPTION_CONFIG, PayloadCodecError, WithoutKeys
from worker.runtime.temporal.temporal_plugin import TenonPlugin

CORE = loggers.library("temporalio.core")
LEVELS = (
    "ERROR,temporalio_common=WARN,temporalio_sdk_core=WARN,temporalio_sdk=WARN,temporal_sdk_bridge=WARN,"
    "temporalio_client=ERROR"
)
"""The client's warnings report its retries."""
_CHANGING = re.compile(r"\d+")


class CoreLines(logging.Filter):
    """Passes each distinct line once a minute, ignoring numbers, and removes a field that only the core can read."""

    def __init__(self, log_limiter: Callable[[str], int | None] | None = None) -> None:
        super().__init__()
        self._count = log_limiter or LogRateLimiter().count

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        vars(record).pop("temporal_log", None)
        return self._count(_CHANGING.sub("", record.getMessage())[:120]) is not None


@functools.cache
def runtime() -> Runtime:
    """The Temporal runtime of this process."""
    CORE.addFilter(CoreLines())
    forwarding = LogForwardingConfig(CORE, append_target_to_name=False, prepend_target_on_message=False)
    config = LoggingConfig(filter=LEVELS, forwarding=forwarding)
    process, _, address = os.environ.get(TEMPORAL_METRICS, "").partition(" ")
    if address:
        # The names that Temporal's own dashboards use: with units, in seconds.
        metrics = PrometheusConfig(address, counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True)
        try:
            return Runtime(telemetry=TelemetryConfig(logging=config, metrics=metrics, global_tags={"process": process}))
        except (RuntimeError, ValueError) as error:  # another program took the port since the parent chose it
            log.warning("The metrics of Temporal's client cannot be served", extra={"error": str(error)})
    return Runtime(telemetry=TelemetryConfig(logging=config))


log = loggers.TEMPORAL

DEFAULT_ADDRESS = "localhost:7233"
CONNECT_TIMEOUT = 10.0
ANSWER_SECONDS = 10.0
"""How long a health check waits for an answer."""
DENIED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


class ConnectionLike(Protocol):
    """Provides the current client, which may change over time."""

    @property
    def client(self) -> Client:
        """The current client."""


class TemporalError(TenonError):
    """Temporal cannot be used. The message is one sentence."""


class TemporalUnreachableError(TemporalError):
    """Temporal does not answer. It may do so later."""

    def __init__(self, where: str, why: str, check: str) -> None:
        super().__init__(f"{where} cannot be reached ({why}): check {check}.")
        self.where = where
        self.why = f"{why}; check {check}"


class EncryptionKeysError(TemporalError):
    """The file of the encryption keys cannot be used."""


async def connect(*, tracing: bool = False) -> Client:
    """Connect with the standard environment (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS, API key, profiles).

    Without encryption keys, the client raises PayloadCodecError when it reads an encrypted payload.

    Raises:
        TemporalError: the environment cannot be used, the address does not answer, or the namespace is unknown.
    """
    return await connect_by(connection_config(), tracing=tracing, otherwise=WithoutKeys())


def connection_config() -> ClientConnectConfig:
    """Read the standard environment, with the current content of the certificate files.

    Raises:
        TemporalError: the configuration cannot be used.
    """
    try:
        config = ClientConfig.load_client_connect_config()
    except (RuntimeError, OSError, ValueError) as error:
        raise TemporalError(
            f"The configuration for Temporal cannot be read ({readable(error)}): "
            "check the environment variables TEMPORAL_..., and the files that they name."
        ) from None
    config.setdefault("target_host", DEFAULT_ADDRESS)
    return config


async def connect_by(
    config: ClientConnectConfig, *, tracing: bool = False, otherwise: PayloadCodec | None = None
) -> Client:
    """Connect with this configuration. ``otherwise`` is the codec of a process without encryption keys.

    Raises:
        TemporalUnreachableError: the address does not answer.
        TemporalError: the namespace is unknown, or the encryption keys cannot be used.
    """
    plugin = TenonPlugin(tracing=tracing, codec=_codec() or otherwise)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await Client.connect(**config, runtime=runtime(), plugins=[plugin])
    except (RuntimeError, RPCError, TimeoutError, ValueError) as error:
        where = f"Temporal at {config.get('target_host')}"
        if _REFUSED.search(str(error)):  # the client knows no type for it
            raise TemporalError(f"{where} refuses this client ({readable(error)}): check TEMPORAL_API_KEY.") from None
        check = "TEMPORAL_ADDRESS and that the server is up"
        if config.get("tls"):
            check = "TEMPORAL_ADDRESS, the certificates that TEMPORAL_TLS_... name, and that the server is up"
        raise TemporalUnreachableError(where, readable(error), check) from None


async def check_namespace(client: Client) -> None:
    """Ask for the namespace, which a worker must be able to read.

    Raises:
        TemporalError: the credentials are not for this namespace.
    """
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError as error:
        if error.status in DENIED:
            raise TemporalError(
                f"Temporal at {client.service_client.config.target_host} refuses this client in the namespace "
                f"{client.namespace} ({readable(error)}): check TEMPORAL_NAMESPACE and TEMPORAL_API_KEY."
            ) from None


def _codec() -> PayloadCodec | None:
    """The codec that the environment asks for."""
    path = os.environ.get(ENCRYPTION_CONFIG)
    if not path:
        return None
    from worker.runtime.temporal.payload_codec import codec_of

    try:
        return codec_of(Path(path))
    except PayloadCodecError as error:
        raise EncryptionKeysError(str(error)) from None


async def watch_temporal(
    connection: ConnectionLike,
    readiness: ReadinessLike,
    period: float = 10.0,
    note: Callable[[bool], None] = lambda _answers: None,
) -> None:
    """Check Temporal's health until cancelled. While it does not serve, the process is unready and logs so once a
    minute. It does not serve either while its database is away.

    Args:
        connection: provides the client.
        readiness: gets the reason while Temporal does not serve.
        period: seconds between two checks.
        note: called after each check with whether Temporal answered.
    """
    outage = Outage(
        f"Temporal at {connection.client.service_client.config.target_host}",
        "nodes keep running, and Tenon decides nothing new until it is back",
        log,
    )
    readiness.checks.append(outage)
    while True:
        why = await _why_away(connection.client)
        # Retry once: servers close old connections, and that fails a request in flight.
        why = await _why_away(connection.client) if why else ""
        outage.note(why)
        note(not why)
        await asyncio.sleep(period)


async def _why_away(client: Client) -> str:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            if not await client.service_client.check_health():
                return "it reports that it is not serving"
            # The health of a frontend says nothing about the database, which this request reads.
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError as error:
        return "" if error.status in _ANSWERS else readable(error)
    except (RuntimeError, TimeoutError) as error:
        return readable(error)
    return ""


_ANSWERS = (*DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.NOT_FOUND, RPCStatusCode.RESOURCE_EXHAUSTED)
"""Refusals by a Temporal that works."""
_QUOTED = re.compile(r'(?:message|error): "([^"]+)"')
_REFUSED = re.compile(r"code: (PermissionDenied|Unauthenticated)\b")
_CERTIFICATE = re.compile(r"InvalidCertificate\((\w+)")
_PLAIN = {
    "tcp connect error": "the connection failed",
    "transport error": "the connection broke",
    "dns error": "the host name cannot be resolved",
}


def readable(error: Exception) -> str:
    """The cause of the error, without the library's wrapping."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = str(error).strip()
    if untrusted := _CERTIFICATE.search(text):
        return f"its certificate is not trusted: {untrusted[1]}"
    quoted = _QUOTED.findall(text)
    if quoted:
        return str(quoted[-1]).rstrip(".")
    first = text.splitlines()[0] if text else type(error).__name__
    return _PLAIN.get(first, first).rstrip(".")
