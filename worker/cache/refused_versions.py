"""Why the last launch of each version of a NodePool failed.

A NodeClaim that EC2 refuses is deleted after moments or minutes, and its conditions with it. A rollout that looks later
must still be able to say why its version does not start.
"""

from __future__ import annotations

from tenon.apis import labels
from tenon.apis.nodeclaim import LAUNCHED, REGISTERED
from tenon.kube.claim_record import ClaimRecord
from tenon.sentences import shortened

MAX_VERSIONS = 200
"""How many versions are remembered. Few are rolled out at one time."""
MAX_REFUSAL = 300


class RefusedVersions:
    """The refusals, as the conditions of NodeClaims said them since the process started."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str], str] = {}

    def of(self, pool: str, version: str) -> str:
        """Return why the last launch of a version failed; empty if it did not fail, or none was seen."""
        return self._refusals.get((pool, version), "")

    def claim_changed(self, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        """Note what a NodeClaim says of its launch. A Node that registers ends what is remembered of its version."""
        version = after.annotations.get(labels.REVISION, "") if after is not None else ""
        if after is None or not version:
            return
        key = (after.pool, version)
        if after.registered:
            if before is None or not before.registered:
                self._refusals.pop(key, None)
        elif refusal := _refusal(after):
            self._refusals.pop(key, None)
            self._refusals[key] = refusal
            while len(self._refusals) > MAX_VERSIONS:
                del self._refusals[next(iter(self._refusals))]


def _refusal(claim: ClaimRecord) -> str:
    """Return EC2's sentence about a launch, or about an instance that ended before its Node joined."""
    launched, registered = claim.condition(LAUNCHED), claim.condition(REGISTERED)
    if launched.get("status") != "True":
        return shortened(str(launched.get("message") or ""), MAX_REFUSAL)
    return shortened(str(registered.get("message") or ""), MAX_REFUSAL) if registered.get("status") == "False" else ""
