"""Reads the objects of Kubernetes that are about a node, a pod or a NodePool, and Tenon's events about them."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import EVENTS, NODECLAIMS, NODEPOOLS, PODS
from cli.nodes.workflows import claim_named
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.conditions import condition
from tenon.kube.pool_reason_json import decode
from tenon.kube.timestamps import parse_instant
from tenon.record.why.answer import Consulted, FactSource
from tenon.record.why.node_life import NodeEvent
from tenon.record.why.pod import PodFacts

COMPONENTS = frozenset({"karpenter", "tenon"})
"""The components of Tenon's events."""


class KubernetesReader:
    """Asks the API server, if it answers."""

    def __init__(self, kube: Kube | None, fault: str = "") -> None:
        self._kube = kube
        self._outcomes = [fault] if fault else []
        self._claims: list[ClaimRecord] | None = None
        self.is_complete = kube is not None
        """Whether every question so far had an answer."""

    @classmethod
    async def open(cls) -> KubernetesReader:
        """Connect."""
        try:
            return cls(await Kube.connect())
        except ConfigError as error:
            return cls(None, str(error).rstrip("."))

    async def close(self) -> None:
        """Close the connection."""
        if self._kube is not None:
            await self._kube.close()

    async def claims(self) -> list[ClaimRecord]:
        """Return all NodeClaims."""
        if self._claims is None:
            self._claims = [ClaimRecord.of(body) for body in await self._list(NODECLAIMS)]
        return self._claims

    async def claim_named(self, name: str) -> ClaimRecord | None:
        """Return the NodeClaim with this name, or the one whose Node or instance has it.

        Raises:
            AmbiguousNameError: it is the name of a Node without its domain, and several Nodes have it.
        """
        claim = claim_named(name, await self.claims())
        if claim is not None:
            self._outcomes.append(f"NodeClaim {claim.name} exists")
            return claim
        if self._kube is not None and not self._outcomes:
            self._outcomes.append(f"it has no NodeClaim, Node or instance {name} (any more)")
        return None

    async def pod(self, namespace: str, name: str) -> tuple[PodFacts | None, str]:
        """Return a pod with its UID; None if it does not exist."""
        body = await self._get(PODS, name, namespace)
        if body is None:
            return None, ""
        spec, status, metadata = body.get("spec") or {}, body.get("status") or {}, body["metadata"]
        scheduled = condition(body, "PodScheduled")
        facts = PodFacts(
            phase=str(status.get("phase") or "Pending"),
            node=str(spec.get("nodeName") or ""),
            created=parse_instant(metadata.get("creationTimestamp")),
            bound=parse_instant(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None,
            scheduler_message=str(scheduled.get("message") or ""),
            gated=bool(spec.get("schedulingGates")),
            deleting=bool(metadata.get("deletionTimestamp")),
        )
        return facts, str(metadata.get("uid") or "")

    async def claim_for(self, pod_uid: str) -> str:
        """Return the newest NodeClaim that was launched for a pod; empty if there is none."""
        claims = [claim for claim in await self.claims() if any(pod.uid == pod_uid for pod in claim.planned_pods)]
        return max(claims, key=lambda claim: claim.batch).name if claims else ""

    async def pool(self, name: str) -> tuple[bool, list[str]]:
        """Return whether a NodePool exists, and its conditions that are not True, in words."""
        body = await self._get(NODEPOOLS, name)
        if body is None:
            return False, []
        conditions = (body.get("status") or {}).get("conditions") or ()
        troubles = [item for item in conditions if item.get("status") != "True"]
        return True, [_condition_text(item) for item in troubles]

    async def events(self, kind: str, name: str, namespace: str = "") -> list[NodeEvent]:
        """Return Tenon's events about an object, the oldest first."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        bodies = await self._list(EVENTS, field_selector=selector, namespace=namespace)
        events = [event for event in map(_event, bodies) if event is not None]
        return sorted(events, key=lambda event: event.at)

    def consulted(self) -> Consulted:
        """What Kubernetes said as a whole."""
        outcome = "; ".join(dict.fromkeys(self._outcomes)) or "it answered"
        return Consulted(FactSource.KUBERNETES, outcome, is_answer=self.is_complete)

    async def _list(self, *arguments: Any, **options: Any) -> list[JsonObject]:
        if self._kube is None:
            return []
        try:
            return await self._kube.list(*arguments, **options)
        except ApiError as error:
            self._failed(error)
            return []

    async def _get(self, *arguments: Any) -> JsonObject | None:
        if self._kube is None:
            return None
        try:
            body = await self._kube.get(*arguments)
        except ApiError as error:
            self._failed(error)
            return None
        self._outcomes.append("the object exists" if body is not None else "the object does not exist (any more)")
        return body

    def _failed(self, error: ApiError) -> None:
        self.is_complete = False
        self._outcomes.append(str(error).rstrip("."))


def _event(body: JsonObject) -> NodeEvent | None:
    component = (body.get("source") or {}).get("component") or body.get("reportingComponent")
    at = parse_instant(body.get("lastTimestamp") or body.get("eventTime") or body.get("firstTimestamp"))
    if component not in COMPONENTS or at is None:
        return None
    no_place = decode(object_json.annotations(body).get(labels.NO_PLACE))
    return NodeEvent(at, str(body.get("reason") or ""), str(body.get("message") or ""), no_place)


def _condition_text(item: JsonObject) -> str:
    reason = f" ({item['reason']})" if item.get("reason") else ""
    message = f": {item['message']}" if item.get("message") else ""
    return f"{item.get('type')} is {item.get('status')}{reason}{message}"
