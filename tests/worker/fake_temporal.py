"""A Temporal that only remembers what it was asked, and a cache without an API server, for tests of controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tenon.apis.labels import TERMINATION_FINALIZER
from tenon.messages.node import Poke
from worker.cache.cluster import ClusterCache
from workflows import names

UNAVAILABLE = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
NOT_FOUND = RPCError("no such workflow", RPCStatusCode.NOT_FOUND, b"")
MOMENT = 1.0
"""More than the bridge lets changes settle, less than a sweep."""


class FakeTemporal:
    """The edge of a Temporal client; ``fails`` maps a workflow id to errors that its calls meet, one each."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, Any]] = []
        self.signals: list[tuple[str, str, tuple[Any, ...]]] = []
        self.fails: dict[str, list[Exception]] = {}
        self.options: dict[str, dict[str, Any]] = {}
        self.silent: set[str] = set()
        """Workflows of which no signal is answered."""
        self.open: dict[str, str] = {}
        """Workflow id -> run id of what is open."""
        self.completed: dict[str, str] = {}
        """Workflow id -> UID of the claim, of the last run that ended of itself."""

    async def list_workflows(self, query: str, **_: Any) -> AsyncIterator[Any]:
        self._fail("list")
        assert query == names.open_nodeclaims_query("c")
        for workflow_id, run_id in list(self.open.items()):
            yield SimpleNamespace(id=workflow_id, run_id=run_id)

    async def start_workflow(self, run: Any, value: Any, *, id: str, **options: Any) -> None:
        self._fail(f"start {id}")
        only_failed = options["id_reuse_policy"] is WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
        if id in self.completed and id not in self.open and only_failed:
            raise WorkflowAlreadyStartedError(id, "NodeClaim")
        self.starts.append((id, value))
        self.open[id] = f"run-{len(self.starts)}"
        self.options[id] = options

    def get_workflow_handle(self, workflow_id: str) -> FakeHandle:
        return FakeHandle(self, workflow_id)

    def _fail(self, call: str) -> None:
        if self.fails.get(call):
            raise self.fails[call].pop(0)

    def started(self, claim_name: str) -> int:
        return [started for started, _ in self.starts].count(names.nodeclaim_id("c", claim_name))

    def pokes(self, claim_name: str) -> list[Poke]:
        nodeclaim_id = names.nodeclaim_id("c", claim_name)
        return [args[0] for workflow_id, _, args in self.signals if workflow_id == nodeclaim_id]


class FakeHandle:
    def __init__(self, temporal: FakeTemporal, workflow_id: str) -> None:
        self._temporal = temporal
        self._id = workflow_id

    async def signal(self, signal: Any, *args: Any, rpc_timeout: timedelta | None = None) -> None:
        self._temporal._fail(f"signal {self._id}")
        if self._id in self._temporal.silent:
            assert rpc_timeout is not None, "a call without an end"
            await asyncio.sleep(rpc_timeout.total_seconds())
            raise RPCError("no answer", RPCStatusCode.DEADLINE_EXCEEDED, b"")
        name = signal if isinstance(signal, str) else signal.__name__
        self._temporal.signals.append((self._id, name, args))

    async def describe(self, **_: Any) -> FakeDescription:
        return FakeDescription(self._temporal.completed[self._id])


class FakeDescription:
    def __init__(self, uid: str) -> None:
        self._uid = uid

    async def memo_value(self, key: str, default: str, *, type_hint: type) -> str:
        assert (key, default, type_hint) == (names.UID_MEMO, "", str)
        return self._uid


class Cache(ClusterCache):
    """The cluster cache without an API server behind it."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None))

    async def wait_synced(self) -> None:
        return

    def publish(self, *records: Any) -> None:
        tables: dict[str, Any] = {"NodeRecord": self.nodes, "ClaimRecord": self.claims}
        for record in records:
            tables[type(record).__name__].on_event(record.key, record)


LEAVING = {"deletionTimestamp": "2026-11-21T12:00:00Z", "finalizers": [TERMINATION_FINALIZER]}
