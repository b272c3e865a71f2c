"""The sentence about a pod that fits nowhere: a clause for each NodePool. Shortening it must not lose a NodePool.

NodePools that would take the pod later come first, because what is read first, and not cut, should be what counts.
"""

from __future__ import annotations

import re

from tenon.sentences import counted, shortened

SHORTEST_CLAUSE = 60
"""Characters that a clause keeps at least. If there is not so much room for each, the last ones are counted."""
_BETWEEN_POOLS = re.compile(r"; (?=NodePool |and \d+ more NodePool)")
_ONLY_WAITS = re.compile(r"NodePool [^:]+: (EC2 refuse|the account's |its limit leaves|it is off )")
"""How the clause of such a NodePool begins. Taints, requirements and sizes stand before these in other clauses."""
_BETWEEN = "; "


def by_pool(reason: str) -> list[str]:
    """Split the sentence into one for each NodePool."""
    return [part for part in _BETWEEN_POOLS.split(reason) if part]


def those_that_wait_first(reason: str) -> str:
    """Return the sentence with the NodePools first that only wait: for EC2's capacity, their limits or a schedule."""
    clauses = by_pool(reason)
    return _BETWEEN.join(sorted(clauses, key=lambda clause: _ONLY_WAITS.match(clause) is None))


def shortened_by_pool(reason: str, most: int) -> str:
    """Return the sentence with at most so many characters: its longest clauses give up their ends.

    It says how many NodePools it leaves out if there are too many.
    """
    clauses = by_pool(reason)
    if len(reason) <= most or len(clauses) < 2:
        return shortened(reason, most)
    fitting = (most + len(_BETWEEN)) // (SHORTEST_CLAUSE + len(_BETWEEN))
    if fitting < len(clauses):
        more = f"and {counted(len(clauses) - max(1, fitting - 1), 'more NodePool')}"
        clauses = [*clauses[: max(1, fitting - 1)], more]
    return _BETWEEN.join(_evenly(clauses, most - len(_BETWEEN) * (len(clauses) - 1)))


def _evenly(clauses: list[str], room: int) -> list[str]:
    """Shorten the longest clauses to the same length, so that all together have at most so many characters."""
    shares: dict[int, int] = {}
    for number, place in enumerate(sorted(range(len(clauses)), key=lambda place: len(clauses[place]))):
        shares[place] = min(len(clauses[place]), room // (len(clauses) - number))
        room -= shares[place]
    return [shortened(clause, shares[place]) for place, clause in enumerate(clauses)]
