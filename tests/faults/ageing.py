"""Time that need not be waited for: what garbage collection judges by its age is made old, or young again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS


async def launched_long_ago(kube: Kube, claim: str) -> None:
    """Write a claim's launch back by ten minutes: only what is lost for two counts as lost."""
    await _launched(kube, claim, datetime.now(UTC) - timedelta(minutes=10))


async def launched_just_now(kube: Kube, claim: str) -> None:
    """Let a claim's two minutes begin now, however long the test took to come this far."""
    await _launched(kube, claim, datetime.now(UTC))


async def _launched(kube: Kube, claim: str, at: datetime) -> None:
    """Write when a claim was launched; what others write of it meanwhile stays."""
    then = at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def dated(present: Mapping[str, Any]) -> dict[str, Any]:
        conditions = present["status"]["conditions"]
        changed = [
            {**condition, "lastTransitionTime": then} if condition["type"] == "Launched" else condition
            for condition in conditions
        ]
        return {"status": {"conditions": changed}}

    result = await kube.get(NODECLAIMS, claim)
    assert result is not None
    written = await change(
        kube, NODECLAIMS, claim, dated, uid=result["metadata"]["uid"], subresource="status", read_object=result
    )
    assert written is not None
