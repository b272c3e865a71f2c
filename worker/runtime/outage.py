"""Reports the outage of an essential service in the readiness probe and in the log.

A worker survives every outage. It is unready during the outage, and logs when it starts, once a minute, and when it
ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from tenon.kube.timestamps import time_text

REPEAT_SECONDS = 60.0
CHECK_SECONDS = 10.0


class ReadinessLike(Protocol):
    """Collects the reasons why the process is not ready."""

    checks: list[Callable[[], str]]


class Outage:
    """Tracks whether one service answers. ``consequence`` tells operators what does not work while it does not."""

    def __init__(
        self,
        service: str,
        consequence: str,
        log: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._service = service
        self._consequence = consequence
        self._log = log
        self._clock = clock
        self._now = now
        self._sentence = ""
        self._began = 0.0
        self._since = ""
        self._logged_at = 0.0

    def __call__(self) -> str:
        """Why the process is not ready. Empty while the service answers."""
        return self._sentence

    def note(self, why: str) -> None:
        """Record the result of a health check: why the service does not answer, or an empty string if it does."""
        instant = self._clock()
        if not why:
            if self._sentence:
                self._log.info(
                    "A service answers again",
                    extra={"service": self._service, "outage-seconds": round(instant - self._began)},
                )
            self._sentence = ""
            return
        begins = not self._sentence
        if begins:
            self._began, self._since = instant, time_text(self._now())
        self._sentence = f"{self._service} has not answered since {self._since} ({why})"
        if begins or instant >= self._logged_at + REPEAT_SECONDS:
            self._logged_at = instant
            self._log.warning(
                "A service does not answer",
                extra={"service": self._service, "since": self._since, "error": why, "consequence": self._consequence},
            )


async def watch_api_server(kube: Kube, readiness: ReadinessLike, period: float = CHECK_SECONDS) -> None:
    """Check until cancelled. While the API server does not serve, the process is not ready and reports why.

    Reflectors notice an outage too, but only the cluster process has reflectors, and a quiet watch may hide it.
    """
    outage = Outage(
        f"The Kubernetes API server at {kube.host}",
        "nodes keep running, and Tenon decides and changes nothing until it is back",
        loggers.KUBERNETES,
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
