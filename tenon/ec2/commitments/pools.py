"""Gives NodePools what the account's Reserved Instances and Savings Plans leave for new nodes.

They cover nodes of Linux in shared tenancy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.ec2.launch.launched_labels import tenancy
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
    is_linux = pool.requirements.get(labels.OS).has(_LINUX)
    return is_linux and tenancy(pool.requirements) != labels.DEDICATED
