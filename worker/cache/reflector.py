"""Keeps a local copy of one Kubernetes resource: first all objects, then every change.

If the API server supports it, the first copy comes at the start of the watch itself; otherwise it comes as a list in
pages. A watch that breaks resumes where it ended. If the server has forgotten that version (410), everything is read
again and the store compares, so that subscribers see only real changes.

A watch may also stall: the connection is open but nothing arrives. kube-apiserver sends a bookmark about once a minute,
so a longer silence ends the connection, and the next one resumes from the last version. If that one is silent too, a
proxy may be holding watches back, and everything is read as a list. If no object of a resource has changed since the
API server started, there are no bookmarks either; the occasional extra request then costs next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, field

from activities import loggers
from activities.kubernetes.errors import ApiError, ApiUnreachableError, GoneError, StreamSilentError, from_status
from activities.kubernetes.resources import Resource
from tenon.kube.records import CachedRecord
from tenon.kube.structs import Metadata, Wire

MIN_BACKOFF_SECONDS = 0.8
MAX_BACKOFF_SECONDS = 30.0
RETRY_AFTER_CAP = 60.0
R = TypeVar("R", bound=CachedRecord)
R_contra = TypeVar("R_contra", bound=CachedRecord, contravariant=True)

if TYPE_CHECKING:  # not loaded by plans from files: see cluster.py
    from activities.kubernetes.client import Kube

log = loggers.CACHE
PAGE_SIZE = 500
WATCH_SECONDS = (240, 300)
SILENCE_SECONDS = 75.0
"""Seconds that a watch may be silent: a bookmark arrives once a minute, and needs some time."""
HEALTHY_SECONDS = 60.0
BRIEF_SECONDS = 1.0
INITIAL_END = "k8s.io/initial-events-end"
_ITEMS_PER_YIELD = 200


class JitteredBackoff:
    """Waiting times in seconds, from `MIN_BACKOFF_SECONDS` to `MAX_BACKOFF_SECONDS`, with jitter, so that clients do
    not retry in step. Call `reset` after a healthy period.
    """

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._failures = 0

    def next(self, retry_after: float = 0.0) -> float:
        """The wait after one more failure. At least ``retry_after``, which the server asked for, up to
        `RETRY_AFTER_CAP`.
        """
        base = min(MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        wait = min(MAX_BACKOFF_SECONDS, base * (1.0 + self._chance.random()))
        return max(wait, min(retry_after, RETRY_AFTER_CAP))

    def reset(self) -> None:
        """Start again with the shortest wait."""
        self._failures = 0


class AnyObject(Wire):
    metadata: Metadata


class ListMetadata(Wire):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class Page(Wire):
    """One page of a list. Its items are still bytes."""

    metadata: ListMetadata
    items: list[Raw] | None = None


class WatchEvent(Wire):
    """One line of a watch. Its object is still bytes."""

    type: str
    object: Raw


class Status(Wire):
    """The object of an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""


_pages = msgspec.json.Decoder(Page)
_events = msgspec.json.Decoder(WatchEvent)
_statuses = msgspec.json.Decoder(Status)
_any = msgspec.json.Decoder(AnyObject)


class Store(Protocol[R_contra]):
    """The store that a reflector fills."""

    async def on_replace(self, records: Mapping[str, R_contra]) -> None:
        """Replace the content with these objects."""

    def on_event(self, key: str, record: R_contra | None) -> None:
        """Store the new version of one object, or remove it if ``record`` is None."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a resource are read."""

    namespace: str = ""
    """Empty for those of all namespaces."""
    label_selector: str = ""
    """Empty for those with any labels."""


EVERYTHING = Scope()


class Reflector(Generic[R]):
    """Lists and watches one resource in `run`. ``decode`` raises ValueError for an object that is to be left out."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        decode: Callable[[msgspec.Raw], R],
        store: Store[R],
        *,
        watch_list: bool = True,
        page_size: int = PAGE_SIZE,
        silence_limit: float = SILENCE_SECONDS,
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: random.Random | None = None,
        scope: Scope = EVERYTHING,
    ) -> None:
        """``scope`` limits which objects of the resource are read."""
        self._selector = {"labelSelector": scope.label_selector} if scope.label_selector else {}
        self._path = resource.path(namespace=scope.namespace)
        self._kube = kube
        self.resource = resource
        self._decode = decode
        self._store = store
        self._watch_list = watch_list
        self._page_size = page_size
        self._silence_limit = silence_limit
        self._pause = pause
        self._chance = chance or random.Random()
        self._backoff = JitteredBackoff(self._chance)
        self._version = ""
        self._paged = True
        self._complaint = ""
        self._heard = float("-inf")
        self._silences = 0
        self._connection: asyncio.Timeout | None = None
        self._dropped = False
        self._awaiting: list[asyncio.Future[None]] = []
        self.synced = asyncio.Event()

    @property
    def plural(self) -> str:
        """The plural name of the resource in the API."""
        return self.resource.plural

    def silent_for(self) -> float:
        """Seconds since the API server last sent an event, a bookmark or a copy. Infinite before the first."""
        return asyncio.get_running_loop().time() - self._heard

    async def refresh(self) -> None:
        """Drop the connection and read everything again. Returns when a copy that was requested after this call is
        complete.

        The copy is read as a list, because a proxy may hold watches back.
        """
        loop = asyncio.get_running_loop()
        copied: asyncio.Future[None] = loop.create_future()
        self._awaiting.append(copied)
        if self._connection is not None and not self._dropped:
            self._dropped = True
            self._connection.reschedule(loop.time())
        await copied

    async def run(self) -> None:
        """List and watch the resource until cancelled. No failure of the server ends it."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            failure: ApiError | None = None
            silent = self._dropped = False
            try:
                async with asyncio.timeout(None) as self._connection:
                    await self._round()
            except TimeoutError:
                if not self._dropped:
                    raise
                continue  # a refresh was asked for
            except StreamSilentError as error:
                silent = bool(self._version)
                self._silences += 1
                self._answered()
                failure = None if silent else error
                self._watch_list = self._watch_list and silent  # a proxy may hold watches back: start with a list
            except GoneError:
                # Expected after a long absence: read everything again.
                self._version = ""
            except ApiError as error:
                failure = error
            except msgspec.DecodeError as error:
                failure = ApiError(200, "BadAnswer", f"the answer cannot be read: {error}")
            finally:
                self._connection = None
            lasted = clock() - began
            if silent or lasted >= HEALTHY_SECONDS:
                self._backoff.reset()
            if failure is not None:
                self._log_failure(failure)
            if failure is not None or silent or lasted < BRIEF_SECONDS:
                await self._pause(self._backoff.next(failure.retry_after if failure else 0.0))

    async def _round(self) -> None:
        if self._awaiting or self._silences > 1:
            await self._list()
        elif self._version:
            await self._watch(initial=False)
        elif self._watch_list:
            try:
                await self._watch(initial=True)
            except ApiError as error:
                if error.status not in (400, 422):
                    raise
                log.info("The API server cannot begin a watch with a list", extra={"resource": self.resource.plural})
                self._watch_list = False
        else:
            await self._list()

    async def _list(self) -> None:
        began = asyncio.get_running_loop().time()
        records: dict[str, R] = {}
        query = {**self._selector, **({"limit": str(self._page_size)} if self._paged else {})}
        while True:
            try:
                page = _pages.decode(await self._kube.request("GET", self._path, query=query))
            except GoneError:
                # The snapshot expired between two pages. A list without pages cannot expire.
                self._paged = False
                raise
            for number, raw in enumerate(page.items or ()):
                self._take(records, raw)
                if number % _ITEMS_PER_YIELD == 0:
                    await asyncio.sleep(0)
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        self._paged = True
        self._heard = began
        await self._complete(records, page.metadata.resource_version)
        await self._watch(initial=False)

    async def _watch(self, *, initial: bool) -> None:
        seconds = self._chance.randint(*WATCH_SECONDS)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **self._selector}
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = self._version
        records: dict[str, R] | None = {} if initial else None
        clock = asyncio.get_running_loop().time
        lines = self._kube.stream(self._path, query, idle_seconds=self._silence_limit)
        async with aclosing(lines) as stream:  # type: ignore[type-var]
            number = 0
            async for line in stream:
                number += 1
                self._heard = clock()
                self._silences = 0
                self._answered()
                if number % _ITEMS_PER_YIELD == 0:
                    await asyncio.sleep(0)
                event = _events.decode(line)
                if event.type == "ERROR":
                    status = _statuses.decode(event.object)
                    raise from_status(status.code or 500, bytes(event.object))
                if event.type == "BOOKMARK":
                    mark = _any.decode(event.object).metadata
                    if records is None:
                        self._version = mark.resource_version
                    elif INITIAL_END in (mark.annotations or {}):
                        await self._complete(records, mark.resource_version)
                        records = None
                elif records is not None:
                    self._take(records, event.object, is_deleted=event.type == "DELETED")
                else:
                    self._apply(event)
        if records is not None:
            # A server that ignores the request for initial events would make this wait forever.
            self._watch_list = False
            raise ApiUnreachableError(self._kube.host, "the watch ended before its first copy was complete")

    async def _complete(self, records: dict[str, R], version: str) -> None:
        await self._store.on_replace(records)
        self._version = version
        self._silences = 0
        if not self._dropped:
            for copied in self._awaiting:
                if not copied.done():  # the caller may have been cancelled
                    copied.set_result(None)
            self._awaiting.clear()
        self._answered()
        self.synced.set()

    def _take(self, records: dict[str, R], raw: msgspec.Raw, *, is_deleted: bool = False) -> None:
        key, record, _ = self._read(raw)
        if record is not None and not is_deleted:
            records[key] = record
        else:
            records.pop(key, None)

    def _apply(self, event: WatchEvent) -> None:
        is_deleted = event.type == "DELETED"
        key, record, version = _name_of(event.object) if is_deleted else self._read(event.object)
        if _older_or_equal(version, self._version):
            return  # already stored
        self._version = version or self._version
        self._store.on_event(key, record)

    def _read(self, raw: msgspec.Raw) -> tuple[str, R | None, str]:
        """The key, the record and the version. The record is None if the object cannot be read."""
        try:
            record = self._decode(raw)
        except ValueError as error:
            key, _, version = _name_of(raw)
            log.warning(
                "An object cannot be read and is left out",
                extra={"kind": self.resource.kind, "object": key, "error": str(error)},
            )
            return key, None, version
        return record.key, record, record.resource_version

    def _answered(self) -> None:
        if self._complaint:
            log.info("The watch of a resource works again", extra={"resource": self.resource.plural})
            self._complaint = ""

    def _log_failure(self, failure: ApiError) -> None:
        sentence = f"{self.resource.plural}: {failure}"
        level = logging.DEBUG if sentence == self._complaint else logging.WARNING
        log.log(
            level,
            "The watch of a resource failed and is retried",
            extra={"resource": self.resource.plural, "error": str(failure)},
        )
        self._complaint = sentence


def _name_of(raw: msgspec.Raw) -> tuple[str, None, str]:
    """The key and the version of an object of which nothing else is read. It has no record."""
    metadata = _any.decode(raw).metadata
    return metadata.key, None, metadata.resource_version


def _older_or_equal(version: str, current: str) -> bool:
    return version.isdecimal() and current.isdecimal() and int(version) <= int(current)
