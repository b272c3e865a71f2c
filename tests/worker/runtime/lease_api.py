"""An API server with one Lease, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import looptime

from activities.kubernetes.errors import ApiUnreachableError, ConflictError
from worker.runtime.election.lease import LeaseElection

NAME = "karpenter-leader-election"
MAX_DURATION = 6 * 3600.0


class Api:
    """One Lease with optimistic locking; while ``down`` every request fails."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.hangs = False
        self.slow = 0.0

    def _check(self) -> None:
        if self.down:
            raise ApiUnreachableError("https://x", "gone")

    async def get(self, resource: Any, name: str, namespace: str = "") -> dict[str, Any] | None:
        self._check()
        if self.hangs:
            await forever()
        assert (name, namespace) == (NAME, "tenon")
        return self.lease and {"metadata": {**self.lease["metadata"]}, "spec": {**self.lease["spec"]}}

    async def create(self, resource: Any, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        self._check()
        if self.lease is not None:
            raise ConflictError(409, "AlreadyExists", "exists")
        self._store(body["spec"], body["metadata"].get("labels") or {}, {})
        return body

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], **_: Any) -> dict[str, Any] | None:
        self._check()
        await asyncio.sleep(0)
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "changed")
        labels, annotations = (
            {**self.lease["metadata"][part], **patch["metadata"].get(part, {})} for part in ("labels", "annotations")
        )
        self._store({**self.lease["spec"], **patch["spec"]}, _kept(labels), _kept(annotations))
        await asyncio.sleep(self.slow)
        return self.lease

    def _store(
        self, spec: dict[str, Any], labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
    ) -> None:
        self.version += 1
        metadata = {"resourceVersion": str(self.version), "labels": labels or {}, "annotations": annotations or {}}
        self.lease = {"metadata": metadata, "spec": spec}

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""

    def election(self, identity: str, api: Any = None) -> LeaseElection:
        return LeaseElection(cast("Any", api or self), namespace="tenon", identity=identity)


def _kept(pairs: dict[str, Any]) -> dict[str, str]:
    """What a merge patch leaves of them."""
    return {key: value for key, value in pairs.items() if value is not None}


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in virtual time; one that still waits after `MAX_DURATION` has failed."""
    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(main(), MAX_DURATION))
    finally:
        loop.close()


async def forever() -> None:
    await asyncio.Event().wait()


async def stop(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
