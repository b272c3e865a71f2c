"""In which order the nodes of a plan are bought if not all of them may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenon.apis import labels
from tenon.scheduling.model import PlannedClaim


def zones_in_turn(claims: Sequence[PlannedClaim]) -> list[int]:
    """Return the positions of the claims so that the zones of each NodePool take turns, by their shares of the plan.

    A plan lists one zone after the other. Pods that spread over zones could not use the nodes of its first part alone.
    """
    zones = [(claim.pool, claim.requirements.labels().get(labels.ZONE, "")) for claim in claims]
    counts, earlier = Counter(zones), Counter[tuple[str, str]]()
    turns = []
    for zone in zones:
        turns.append(earlier[zone] / counts[zone])
        earlier[zone] += 1
    return sorted(range(len(claims)), key=lambda position: (turns[position], position))
