"""Gives NodePools what the account's Reserved Instances and Savings Plans leave for new nodes.

They cover nodes of Linux in shared tenancy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.ec2.launch.launched_labels import tenancy
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import Commitment, Pool, Problem

_LINUX = "linux"


def with_commitments(problem: Problem, remaining: Sequence[Commitment]) -> Problem:
    """Return the problem with what is left of the account's commitments."""
    return replace(problem, pools=with_commitments_of(problem.pools, remaining)) if remaining else problem


def with_commitments_of(pools: Sequence[Pool], remaining: Sequence[Commitment]) -> list[Pool]:
    """Return the NodePools with what is left of the account's commitments, if these may cover their nodes."""
    usable = tuple(commitment for commitment in remaining if commitment.remaining > 0)
    return [replace(pool, commitments=usable) if usable and _may_be_covered(pool) else pool for pool in pools]


def _may_be_covered(pool: Pool) -> bool:
    """Whether commitments may cover the pool's nodes. All of its types have the operating system of its class."""
    systems = (kind.requirements.get(labels.OS) for kind in pool.instance_types[:1])
    return may_cover(pool.requirements) and all(system.has(_LINUX) for system in systems)


def may_cover(requirements: Requirements) -> bool:
    """Whether commitments may cover a node with these requirements: one of Linux in shared tenancy."""
    return requirements.get(labels.OS).has(_LINUX) and tenancy(requirements) != labels.DEDICATED
