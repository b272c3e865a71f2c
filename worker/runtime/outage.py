"""What the readiness probe and the log say while a service is away that everything depends on.

A worker survives every outage: it is unready, and logs so at once, then once a minute, and when the outage is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

REPEAT_SECONDS = 60.0


class ReadinessLike(Protocol):
    """Where reasons for not being ready are gathered."""

    checks: list[Callable[[], str]]


class Outage:
    """Whether one service answers. ``consequence`` tells operators what stands still while it does not."""

    def __init__(
        self,
        service: str,
        consequence: str,
        log: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._service = service
        self._consequence = consequence
        self._log = log
        self._clock = clock
        self._now = now
        self._sentence = ""
        self._began = 0.0
        self._since = ""
        self._told = 0.0

    def __call__(self) -> str:
        """Why the process is not ready; empty while the service answers."""
        return self._sentence

    def note(self, why: str) -> None:
        """Takes the outcome of a look at the service: why it does not serve, or nothing when it does."""
        instant = self._clock()
        if not why:
            if self._sentence:
                self._log.info("%s answers again after %.0f s", self._service, instant - self._began)
            self._sentence = ""
            return
        begins = not self._sentence
        if begins:
            self._began, self._since = instant, self._now().strftime("%H:%M:%S UTC")
        self._sentence = f"{self._service} has not answered since {self._since} ({why})"
        if begins or instant >= self._told + REPEAT_SECONDS:
            self._told = instant
            self._log.warning("%s: %s", self._sentence, self._consequence)
