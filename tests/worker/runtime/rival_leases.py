"""The Leases of a cluster in which other controllers may lead, with the Pods that hold them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

from activities.gate import Gate
from activities.kubernetes.errors import ForbiddenError
from worker.runtime.election.leader_conflict import LeaderConflict

KARPENTER = ("kube-system", "karpenter-leader-election")
US = ("tenon", "karpenter-leader-election")
ELSEWHERE = ("apps", "karpenter-leader-election")
TENANT = ("tenant", "karpenter-leader-election")
UUID = "0e1c9c3e-7c51-4a6e-9f0a-2d1c1f6f8b11"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Leases:
    """The Leases of a whole cluster, as ``list`` gives them."""

    def __init__(self) -> None:
        self.leases: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0
        self.failure: Exception | None = None
        self.requests: list[str] = []
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.may_write: set[str] = set()
        """The users that may write NodeClaims, by this verb."""
        self.verb = "patch"
        self.read: list[tuple[str, str]] = []
        self.reviews: list[dict[str, Any]] = []
        self.may_review = True

    def add_pod(self, namespace: str, name: str, account: str, phase: str = "Running", *, may_write: bool) -> None:
        self.pods[namespace, name] = {"spec": {"serviceAccountName": account}, "status": {"phase": phase}}
        if may_write:
            self.may_write.add(f"system:serviceaccount:{namespace}:{account}")

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any] | None:
        assert resource.plural == "pods"
        self.read.append((namespace, name))
        if self.failure is not None:
            raise self.failure
        return self.pods.get((namespace, name))

    async def create(self, resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        assert resource.plural == "subjectaccessreviews"
        if not self.may_review:
            raise ForbiddenError(403, "Forbidden", "subjectaccessreviews is forbidden")
        self.reviews.append(body["spec"])
        resource_attributes = body["spec"]["resourceAttributes"]
        assert (resource_attributes["group"], resource_attributes["resource"], "namespace" in resource_attributes) == (
            "karpenter.sh",
            "nodeclaims",
            False,
        )
        return {
            "status": {"allowed": resource_attributes["verb"] == self.verb and body["spec"]["user"] in self.may_write}
        }

    async def list(self, resource: Any, *, field_selector: str) -> list[dict[str, Any]]:
        self.requests.append(field_selector)
        if self.failure is not None:
            raise self.failure
        return [lease for (_, name), lease in self.leases.items() if field_selector == f"metadata.name={name}"]

    def renew(self, key: tuple[str, str], holder: str, seconds: int | None = 15, at: str = "") -> None:
        """``at``: the clock of a holder may be wrong by years, and nothing may depend on it while it holds."""
        self.version += 1
        at = at or f"1999-01-01T00:00:00.{self.version:06d}Z"
        metadata = {"namespace": key[0], "name": key[1], "resourceVersion": str(self.version)}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": at}
        self.leases[key] = {"metadata": metadata, "spec": spec}

    async def renewing(self, key: tuple[str, str], holder: str) -> None:
        while True:
            self.renew(key, holder)
            await asyncio.sleep(2)


class WrittenEvents:
    """The events that were written."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    async def publish(self, about: Any, reason: str, message: str, type_: str = "Normal") -> bool:
        self.events.append((about["metadata"]["namespace"], reason, message))
        return True


def rivals(
    leases: Any, events: WrittenEvents | None = None, own: tuple[str, str] = US, gate: Gate | None = None
) -> LeaderConflict:
    api, recorder = cast("Any", leases), cast("Any", events or WrittenEvents())
    namespaces = ("kube-system", "karpenter")
    return LeaderConflict(
        api, recorder, namespace=own[0], name=own[1], namespaces=namespaces, gate=gate, now=lambda: NOW
    )
