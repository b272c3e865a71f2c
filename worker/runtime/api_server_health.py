"""Checks every few seconds whether the Kubernetes API server serves, for the readiness probe and the log.

Reflectors notice an outage too, but only the cluster process has reflectors, and a quiet watch may hide it.
"""

from __future__ import annotations

import asyncio

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from worker.runtime.outage import Outage, ReadinessLike

log = loggers.KUBERNETES

PERIOD = 10.0


async def watch_api_server(kube: Kube, readiness: ReadinessLike, period: float = PERIOD) -> None:
    """Check until cancelled. While the API server does not serve, the process is not ready and reports why."""
    outage = Outage(
        f"The Kubernetes API server at {kube.host}",
        "nodes keep running, and Tenon decides and changes nothing until it is back",
        log,
    )
    readiness.checks.append(outage)
    while True:
        outage.note(await _why_away(kube, period))
        await asyncio.sleep(period)


async def _why_away(kube: Kube, seconds: float) -> str:
    try:
        await kube.request("GET", "/readyz", seconds=seconds)
    except ApiUnreachableError as error:
        return error.why
    except ApiError as error:
        # A refusal (no permission, or too many requests) still shows that the API server answers.
        return f"HTTP status {error.status}" if error.status >= 500 else ""
    return ""
