"""What all controllers share: they collect changes of the cache, reconcile them, retry failures and count both.

A controller names the kinds that it watches and implements `reconcile`. The metrics have the names of
controller-runtime's, so that dashboards made for Karpenter work.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import time
from collections.abc import Awaitable, Sequence
from typing import ClassVar

from temporalio.service import RPCError

from activities import loggers, metrics
from activities.ec2.errors import EC2Error
from activities.in_progress import RECONCILES
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.errors import ApiError
from worker.cache.changes import Change, Subscription, Topic
from worker.cache.cluster import ClusterCache
from worker.log_rate_limit import LogRateLimiter

BACKOFF = (1.0, 60.0)
"""Seconds until the first retry of an object, and the longest pause; it doubles in between."""


class Controller(abc.ABC):
    """Reconciles the changes of some kinds, in batches."""

    name: ClassVar[str]
    """The label ``controller`` of the metrics, and the last part of the logger's name."""
    topics: ClassVar[Sequence[Topic]]
    """The changes that start a reconcile."""
    object_field: ClassVar[str] = "object"
    """The field of a log line that names the object."""
    settle: float = 0.5
    """Seconds in which changes gather before a reconcile."""
    interval: float = 0.0
    """Least seconds between the starts of two reconciles."""
    at_once: ClassVar[int] = 1
    """Objects that are reconciled at the same time."""
    resync: float | None = None
    """Seconds after which a reconcile starts without a change."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._log = loggers.controller(self.name)
        self._log_limiter = LogRateLimiter()
        self._succeeded = metrics.RECONCILES.labels(self.name, "success")
        self._requeued = metrics.RECONCILES.labels(self.name, "requeue_after")
        self._failed = metrics.RECONCILES.labels(self.name, "error")
        self._errors = metrics.RECONCILE_ERRORS.labels(self.name)
        self._seconds = metrics.RECONCILE_SECONDS.labels(self.name)
        self._active = metrics.ACTIVE_RECONCILES.labels(self.name)
        self._depth = metrics.QUEUED_CHANGES.labels(self.name, self.name)
        self._adds = metrics.QUEUE_ADDS.labels(self.name, self.name)
        self._retries = metrics.QUEUE_RETRIES.labels(self.name, self.name)
        self._panics = metrics.RECONCILE_PANICS.labels(self.name)
        self._queue_seconds = metrics.QUEUE_SECONDS.labels(self.name, self.name)
        self._work_seconds = metrics.WORK_SECONDS.labels(self.name, self.name)
        metrics.MAX_RECONCILES.labels(self.name).set(self.at_once)

    @abc.abstractmethod
    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Make the world match what changed, or everything that the controller watches.

        Returns:
            Seconds until the next reconcile, even without a change; None to wait for a change or for `resync`.
        """

    async def wait_ready(self) -> None:
        """Wait until the controller can see everything that it reads."""
        await self._cache.wait_synced()

    def initial(self) -> Sequence[Change] | None:
        """The changes of the first reconcile; None to wait for the first change instead."""
        return ()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        clock = asyncio.get_running_loop().time
        with self._cache.subscribe(self.topics) as subscription:
            await self.wait_ready()
            first = self.initial()
            changes = await self._collect(subscription, None, float("-inf")) if first is None else first
            failures = 0
            while True:
                began = clock()
                pause, succeeded = await self._reconcile_once(changes)
                if succeeded:
                    failures, changes = 0, ()
                else:
                    self._retries.inc()
                    await asyncio.sleep(backoff(failures))  # even if changes arrive in the meantime
                    failures, pause = failures + 1, 0.0
                changes = [*changes, *await self._collect(subscription, pause, began)]
                self._adds.inc(len(changes))

    async def isolate(self, key: str, work: Awaitable[object]) -> bool:
        """Await the work for one object. A failure does not stop the work for other objects. Returns whether it
        succeeded.

        The next reconcile that includes the object retries it.
        """
        try:
            await work
        except Exception as error:  # the only place where controllers catch what they do not expect
            self._errors.inc()
            if not isinstance(error, ApiError | EC2Error | RPCError):
                self._panics.inc()
            self._log_failure(key, error)
            return False
        return True

    async def _reconcile_once(self, changes: Sequence[Change]) -> tuple[float | None, bool]:
        pause: float | None = None

        async def work() -> None:
            nonlocal pause
            pause = await self.reconcile(changes)

        self._depth.set(len(changes))
        self._active.set(1)
        began = time.perf_counter()
        try:
            with RECONCILES.during(self.name):
                succeeded = await self.isolate("", work())
        finally:
            self._active.set(0)
            seconds = time.perf_counter() - began
            self._seconds.observe(seconds)
            self._work_seconds.observe(seconds)
        (self._failed if not succeeded else self._succeeded if pause is None else self._requeued).inc()
        return pause, succeeded

    async def _collect(self, subscription: Subscription, pause: float | None, began: float) -> list[Change]:
        """Wait for changes and let more gather. Returns no changes if the next reconcile is due without one."""
        clock = asyncio.get_running_loop().time
        changes: list[Change] = []
        due = min((seconds for seconds in (pause, self.resync) if seconds is not None), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(due):
                changes = await subscription.next()
        arrived = clock()
        wait = max(self.settle, began + self.interval - arrived)
        if wait > 0:
            await asyncio.sleep(wait)
            changes += subscription.take()
        if changes:
            self._queue_seconds.observe(clock() - arrived)
        return changes

    def _log_failure(self, key: str, error: Exception) -> None:
        """Log one line a minute: for all objects together if a service is unavailable, otherwise for each object."""
        fields = {"controller": self.name} | ({self.object_field: key} if key else {})
        if not isinstance(error, ApiError | EC2Error | RPCError):
            if self._log_limiter.count((key, type(error))) is not None:
                self._log.error(
                    "The controller failed to reconcile for an unexpected reason and retries",
                    exc_info=error,
                    extra=fields,
                )
            return
        away = isinstance(error, RPCError) or (isinstance(error, ApiError) and not 400 <= error.status < 500)
        failure = type(error).__name__ if away else f"{key} {getattr(error, 'status', '')}"
        if self._log_limiter.count(failure) is not None:
            self._log.warning("The controller failed to reconcile and retries", extra={**fields, "error": str(error)})


class ObjectController(Controller):
    """Reconciles objects separately and concurrently, and retries failed ones with exponential backoff."""

    at_once: ClassVar[int] = 10
    backoff: ClassVar[tuple[float, float]] = BACKOFF

    def __init__(self, cache: ClusterCache) -> None:
        super().__init__(cache)
        self._due: dict[str, float] = {}
        """By name: when an object is reconciled again even if it does not change."""
        self._failures: dict[str, int] = {}

    def needs_reconcile(self, name: str) -> bool:  # noqa: ARG002
        """Whether there is anything to do, as the cache shows it. Must be cheap: it runs for every change."""
        return True

    @abc.abstractmethod
    async def reconcile_object(self, name: str) -> float | None:
        """Make the world match one object.

        Returns:
            Seconds until the object is reconciled again even if it does not change.
        """

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Reconcile the objects that changed, and those that are due."""
        now = asyncio.get_running_loop().time()
        changed = dict.fromkeys(key for _, key in changes)
        due = dict.fromkeys(name for name, at in self._due.items() if at <= now)
        names = []
        for name in changed | due:
            if self.needs_reconcile(name):
                if name in due or name not in self._failures:  # what failed waits for its retry
                    names.append(name)
            else:
                self._due.pop(name, None)
                self._failures.pop(name, None)
        await bounded(sorted(names), self.at_once, self._reconcile_one)
        return max(0.0, min(self._due.values()) - asyncio.get_running_loop().time()) if self._due else None

    async def _reconcile_one(self, name: str) -> None:
        pause: float | None = None

        async def work() -> None:
            nonlocal pause
            pause = await self.reconcile_object(name)

        if await self.isolate(name, work()):
            self._failures.pop(name, None)
        else:
            pause = backoff(self._failures.get(name, 0), *self.backoff)
            self._failures[name] = self._failures.get(name, 0) + 1
            self._retries.inc()
        if pause is None:
            self._due.pop(name, None)
        else:
            self._due[name] = asyncio.get_running_loop().time() + pause


def backoff(failures: int, first: float = BACKOFF[0], longest: float = BACKOFF[1]) -> float:
    """Seconds until the next retry after so many earlier failures."""
    return float(min(longest, first * 2 ** min(failures, 30)))
