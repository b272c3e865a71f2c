"""Which pods each NodeClaim was bought for, read once for each version of the claim.

Looks at the cluster ask for this all the time, and a claim keeps its annotation for life: to parse it at every look
costs claims times pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from worker.cache.records import ObjectRecord


class Bought:
    """The pods of each claim, and the claims of each pod."""

    def __init__(self) -> None:
        self._text: dict[str, str] = {}
        self._pods: dict[str, Mapping[str, str]] = {}
        self._claims: dict[str, set[str]] = {}

    def claim_changed(self, name: str, claim: ObjectRecord | None) -> None:
        """A claim is like this now, or gone."""
        text = claim.annotations.get(labels.PLANNED_PODS, "") if claim is not None else ""
        if text == self._text.get(name, ""):
            return
        had, has = self._pods.pop(name, {}), planned_pods(text)
        for uid in set(had.values()) - set(has.values()):
            self._claims[uid].discard(name)
            if not self._claims[uid]:
                del self._claims[uid]
        for uid in has.values():
            self._claims.setdefault(uid, set()).add(name)
        self._text[name] = text
        if has:
            self._pods[name] = has
        if not text:
            del self._text[name]

    def pods_of(self, claim: str) -> Mapping[str, str]:
        """The pods that a claim (by name) was bought for: ``namespace/name`` -> UID."""
        return self._pods.get(claim, {})

    def claims_for(self, uid: str) -> list[str]:
        """The names of the claims that were bought for a pod, in order."""
        return sorted(self._claims.get(uid, ()))


def planned_pods(text: str) -> dict[str, str]:
    """What the annotation of a claim says: ``namespace/name`` -> UID; entries that cannot be read are left out."""
    entries = (entry.partition("=") for entry in text.split(","))
    return {key.strip(): uid.strip() for key, _, uid in entries if key.strip() and uid.strip()}
