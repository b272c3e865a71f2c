"""What comes: nodes that expire, nodes in drift, and NodePools that are near their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.apis.nodeclaim import DRIFTED
from tenon.kube.timestamps import parse_instant
from tenon.report.live import LiveCluster, LiveNode
from tenon.resources import NODES, parse_resources

EXPIRIES = timedelta(days=7)
NEAR = 0.8
"""The part of a limit from which on a NodePool is near it."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a node expires."""

    at: datetime
    node: LiveNode


@dataclass(frozen=True, slots=True)
class ForeseenDrift:
    """Why a node no longer is what its NodePool asks for."""

    node: LiveNode
    why: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How much of a NodePool's limit its nodes use."""

    pool: str
    resource: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        """The used part; 1 for a limit of 0, which allows nothing."""
        return self.used / self.limit if self.limit else 1.0


@dataclass(frozen=True, slots=True)
class Ahead:
    """What comes."""

    expiries: Sequence[Expiry]
    """Those of the next days, the soonest first; nodes that leave already are not among them."""
    drifts: Sequence[ForeseenDrift]
    limits: Sequence[LimitUse]
    """Those that are nearly used up, the tightest first."""


def ahead(cluster: LiveCluster) -> Ahead:
    """Return what comes."""
    now = cluster.fleet.now
    expiries, drifts = [], []
    for live in cluster.nodes:
        claim = live.claim
        if claim is None or claim.deleting:
            continue
        expires_at = live.row.expires
        if expires_at is not None and expires_at <= now + EXPIRIES:
            expiries.append(Expiry(expires_at, live))
        if claim.is_true(DRIFTED):
            condition = claim.condition(DRIFTED)
            why = str(condition.get("message") or condition.get("reason") or "")
            drifts.append(ForeseenDrift(live, why, parse_instant(condition.get("lastTransitionTime"))))
    return Ahead(
        expiries=sorted(expiries, key=lambda expiry: (expiry.at, expiry.node.name)),
        drifts=sorted(drifts, key=lambda drift: drift.node.name),
        limits=sorted(_limits(cluster), key=lambda use: (-use.share, use.pool, use.resource)),
    )


def _limits(cluster: LiveCluster) -> list[LimitUse]:
    near_limits = []
    for pool in cluster.pools:
        try:
            limits = parse_resources(pool.spec.get("limits"))
            used = parse_resources(pool.status.get("resources"))
        except (ValueError, AttributeError):  # the NodePool's condition ValidationSucceeded says why
            continue
        if NODES in limits:
            used[NODES] = sum(live.claim is not None and live.claim.pool == pool.name for live in cluster.nodes)
        near_limits += [
            LimitUse(pool.name, name, used.get(name, 0), limit)
            for name, limit in limits.items()
            if used.get(name, 0) >= NEAR * limit
        ]
    return near_limits
