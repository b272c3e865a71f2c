"""Which pods each NodeClaim was bought for. The annotation is parsed once for each version of the claim.

Reads of the cluster need this constantly, and a claim keeps its annotation for life. Parsing it at every read would
cost claims times pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.planned_pods import parse_planned
from tenon.kube.records import PodRecord


class ClaimedPods:
    """Maps claims to the pods that they were bought for, and pods to claims. Records know only the first direction."""

    def __init__(self) -> None:
        self._text: dict[str, str] = {}
        self._pods: dict[str, Mapping[str, str]] = {}
        self._claims: dict[str, tuple[str, ...]] = {}

    def copy(self) -> ClaimedPods:
        """An independent copy, which later changes do not affect."""
        copied = ClaimedPods()
        copied._text, copied._pods, copied._claims = self._text.copy(), self._pods.copy(), self._claims.copy()
        return copied

    def claim_changed(self, name: str, claim: ClaimRecord | None) -> None:
        """Record a claim's new version, or None if it was deleted."""
        text = claim.annotations.get(labels.PLANNED_PODS, "") if claim is not None else ""
        if text == self._text.get(name, ""):
            return
        old_pods, new_pods = self._pods.pop(name, {}), {pod.key: pod.uid for pod in parse_planned(text)}
        for uid in set(old_pods.values()) - set(new_pods.values()):
            remaining_claims = tuple(other for other in self._claims.pop(uid) if other != name)
            if remaining_claims:
                self._claims[uid] = remaining_claims
        alone = (name,)  # one tuple for all its pods, of which a large cluster has many
        for uid in set(new_pods.values()) - set(old_pods.values()):
            others = self._claims.get(uid)
            self._claims[uid] = tuple(sorted((*others, name))) if others else alone
        self._text[name] = text
        if new_pods:
            self._pods[name] = new_pods
        if not text:
            del self._text[name]

    def pods_of(self, claim: str) -> Mapping[str, str]:
        """The pods that a claim was bought for: ``namespace/name`` -> UID."""
        return self._pods.get(claim, {})

    def claims_for(self, uid: str) -> tuple[str, ...]:
        """The names of the claims that were bought for the pod with this UID, sorted."""
        return self._claims.get(uid, ())


def still_needs(claim: ClaimRecord, pod: PodRecord) -> bool:
    """Whether the pod still needs the claim that was bought for it. A pod that got its node after that went there
    instead.
    """
    created = claim.created_at if pod.node_name else None
    return created is None or pod.bound_at <= created.timestamp()
