"""A digest of a plan, which shows in histories and in the record whether two plans bought the same."""

from __future__ import annotations

import hashlib

from tenon.scheduling.model import Plan

TYPES = 10
"""How many types of each NodeClaim count, cheapest first."""


def plan_digest(plan: Plan) -> str:
    """Return a short hash of what a plan buys: NodePools, the cheapest types, and the pods of each NodeClaim."""
    text = repr([(c.pool, c.instance_types[:TYPES], sorted(p.key for p in c.pods)) for c in plan.claims])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
