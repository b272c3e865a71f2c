"""Which AWS rights a test run may be refused, and which the worker's policy may grant.

Every EC2 server of the sandbox judges its callers and records what they use and what it refuses. `tests/audit.py` reads
these records at the end of a run. A test that wants refusals has the marker ``refuses`` with the actions, or replaces
the worker's policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.unused_rights import UNUSED

__all__ = ["UNUSED", "Refusal", "policy_faults"]


@dataclass(frozen=True)
class Refusal:
    """A call that the policy refused to a worker, and when, in seconds since the epoch."""

    action: str
    message: str
    at: float
    expected: bool = False
    """The refusal is no defect of the policy: a test has replaced it, or the resource does not exist."""


def policy_faults(used: set[str], granted: Iterable[str], unused: Iterable[str], *, whole: bool) -> list[str]:
    """Say what is wrong with the policy, or with the list of unused actions, in a sentence each.

    ``whole``: the run had every test, so an action that it did not use is granted in vain.
    """
    listed = set(unused)
    stale = [f"{action} is used now: remove it from tests/unused_rights.py" for action in sorted(listed & used)]
    if not whole:
        return stale
    vain = sorted(set(granted) - used - listed)
    return [*stale, *(f"The policy grants {action}, which no test used: take it out or name it" for action in vain)]
