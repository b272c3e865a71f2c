"""Which pods each NodeClaim was bought for, read once for each version of the claim.

Looks at the cluster ask for this all the time, and a claim keeps its annotation for life: to parse it at every look
costs claims times pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.kube.planned_pods import parse_planned
from tenon.kube.records import ObjectRecord


class Bought:
    """The pods of each claim, and the claims of each pod."""

    def __init__(self) -> None:
        self._text: dict[str, str] = {}
        self._pods: dict[str, Mapping[str, str]] = {}
        self._claims: dict[str, tuple[str, ...]] = {}

    def copy(self) -> Bought:
        """The same, which later changes leave as it is."""
        made = Bought()
        made._text, made._pods, made._claims = self._text.copy(), self._pods.copy(), self._claims.copy()
        return made

    def claim_changed(self, name: str, claim: ObjectRecord | None) -> None:
        """A claim is like this now, or gone."""
        text = claim.annotations.get(labels.PLANNED_PODS, "") if claim is not None else ""
        if text == self._text.get(name, ""):
            return
        had, has = self._pods.pop(name, {}), {pod.key: pod.uid for pod in parse_planned(text)}
        for uid in set(had.values()) - set(has.values()):
            left = tuple(other for other in self._claims.pop(uid) if other != name)
            if left:
                self._claims[uid] = left
        for uid in set(has.values()) - set(had.values()):
            self._claims[uid] = tuple(sorted((*self._claims.get(uid, ()), name)))
        self._text[name] = text
        if has:
            self._pods[name] = has
        if not text:
            del self._text[name]

    def pods_of(self, claim: str) -> Mapping[str, str]:
        """The pods that a claim (by name) was bought for: ``namespace/name`` -> UID."""
        return self._pods.get(claim, {})

    def claims_for(self, uid: str) -> tuple[str, ...]:
        """The names of the claims that were bought for a pod, in order."""
        return self._claims.get(uid, ())
