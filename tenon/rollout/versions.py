"""Which version of a NodePool launches now, and which of its nodes may be replaced, as a NodeRollout's status says.

The workflow of a rollout writes that status, and is the only one that does. Everything else follows it: a NodePool that
a rollout selects never launches a version that did not pass, except for the nodes that the rollout itself replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from tenon.kube import object_json
from tenon.kube.selectors import LabelSelector, label_selector
from tenon.kube.structs import Selector


class PoolPhase(StrEnum):
    """How far the rollout of a NodePool is."""

    SETTLED = "Settled"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    HALTED = "Halted"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"


_NEXT = {
    PoolPhase.SETTLED: "it is replaced when a rollout of the newest version reaches it",
    PoolPhase.PROGRESSING: "it is replaced when a wave reaches it",
    PoolPhase.PAUSED: "it is replaced after the rollout continues",
    PoolPhase.HALTED: "it stays until somebody continues the rollout, or a later version passes",
    PoolPhase.ROLLING_BACK: "only nodes of the version that failed are replaced",
    PoolPhase.ROLLED_BACK: "it stays until a later version passes",
}

_NOTHING = LabelSelector((("", "In", ()),))


@dataclass(frozen=True, slots=True)
class PoolRollout:
    """What a NodeRollout says about one NodePool."""

    rollout: str
    pool: str
    current: str = ""
    """The digest of the last version that passed; empty if the rollout does not name one yet."""
    target: str = ""
    """The digest of the version that is rolled out, or that failed; empty if all nodes may have the current one."""
    phase: PoolPhase = PoolPhase.SETTLED
    wave_claims: frozenset[str] = frozenset()
    """The NodeClaims that may be replaced now."""
    message: str = ""
    cause: str = ""
    """Why the version is rolled out, and who asked for it."""

    @property
    def replacement(self) -> str:
        """The digest of the version that a replaced node of a wave gets; empty if that is the newest."""
        return self.target if self.phase is PoolPhase.PROGRESSING and self.target else self.current

    @property
    def launches_target(self) -> bool:
        """Whether nodes of a wave get another version than ordinary launches."""
        return bool(self.current) and self.replacement != self.current

    def may_replace(self, claim: str) -> bool:
        """Whether the node of this NodeClaim may be replaced because of its version."""
        return claim in self.wave_claims

    def why_not(self) -> str:
        """Say why a node that is in no wave stays, in a clause."""
        reason = f" ({self.message.rstrip('.')})" if self.message else ""
        state = f"NodeRollout {self.rollout} is {_PHASE_TEXT[self.phase]} in NodePool {self.pool}{reason}"
        return f"{state}: {_NEXT[self.phase]}"


_PHASE_TEXT = {
    PoolPhase.SETTLED: "settled",
    PoolPhase.PROGRESSING: "in progress",
    PoolPhase.PAUSED: "paused",
    PoolPhase.HALTED: "halted",
    PoolPhase.ROLLING_BACK: "rolling back",
    PoolPhase.ROLLED_BACK: "rolled back",
}


def rollouts_by_pool(
    rollouts: Iterable[Mapping[str, Any]], pools: Mapping[str, Mapping[str, str]]
) -> dict[str, PoolRollout]:
    """Return what holds for each NodePool that a rollout selects.

    One that selects NodePools by their labels comes before a default one, and an older one before a newer one.

    Args:
        rollouts: the NodeRollouts as JSON.
        pools: by name, the labels of the NodePools.
    """
    ranked = sorted((body for body in rollouts if not object_json.is_deleting(body)), key=_rank)
    selectors = [(body, _selector(body)) for body in ranked]
    by_pool: dict[str, PoolRollout] = {}
    for pool, pool_labels in pools.items():
        for body, selector in selectors:
            if selector is None or selector.matches(pool_labels):
                by_pool[pool] = _of_status(body, pool)
                break
    return by_pool


def _rank(body: Mapping[str, Any]) -> tuple[bool, str, str]:
    metadata = body.get("metadata") or {}
    is_default = (body.get("spec") or {}).get("nodePoolSelector") is None
    return is_default, str(metadata.get("creationTimestamp") or ""), str(metadata.get("name"))


def _selector(body: Mapping[str, Any]) -> LabelSelector | None:
    """Return the label selector; None for the default rollout. One that cannot be read selects nothing."""
    written = (body.get("spec") or {}).get("nodePoolSelector")
    if written is None:
        return None
    try:
        return label_selector(msgspec.convert(written, Selector)) or _NOTHING
    except ValueError:
        return _NOTHING


def _of_status(body: Mapping[str, Any], pool: str) -> PoolRollout:
    name = str((body.get("metadata") or {}).get("name"))
    rows: Sequence[Any] = (body.get("status") or {}).get("nodePools") or ()
    row = next((row for row in rows if isinstance(row, Mapping) and row.get("name") == pool), None)
    if row is None:
        return PoolRollout(name, pool)
    phase = row.get("phase")
    return PoolRollout(
        rollout=name,
        pool=pool,
        current=str(row.get("currentRevision") or ""),
        target=str(row.get("targetRevision") or ""),
        # A phase that this release does not know replaces nothing.
        phase=PoolPhase(phase) if phase in list(PoolPhase) else PoolPhase.PAUSED,
        wave_claims=frozenset(str(claim) for claim in row.get("waveClaims") or ()),
        message=str(row.get("message") or ""),
        cause=str(row.get("cause") or ""),
    )
