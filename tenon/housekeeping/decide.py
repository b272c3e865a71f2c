"""From what was read to what is to be done: all findings of a sweep, oldest first, and no more than it may act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenon.housekeeping import claims, instances, leftovers
from tenon.housekeeping.facts import Graces, Observed
from tenon.housekeeping.findings import Finding, Kind

GRACES = Graces()


def findings(seen: Observed, graces: Graces = GRACES) -> list[Finding]:
    """Everything that is lost or wrong, oldest first. What could not be read gives no findings."""
    found = [
        *instances.without_claim(seen, graces),
        *claims.without_instance(seen, graces),
        *claims.without_workflow(seen, graces),
        *claims.held_by_others(seen),
        *leftovers.workflows(seen, graces),
        *leftovers.nodes(seen, graces),
        *leftovers.templates(seen, graces),
        *instances.untagged(seen),
    ]
    return sorted(found, key=lambda each: (each.since, each.kind, each.name))


def within(
    found: Iterable[Finding], actions: int, tags: int, failed: Sequence[str] = ()
) -> tuple[list[Finding], list[Finding]]:
    """What this sweep acts on, and what waits for the next. Finalizers of others are only told, so they all are.

    What ``failed`` before comes last, in that order, so that things which cannot be ended keep no other from its turn.
    """
    turn = {key: place for place, key in enumerate(failed)}
    now: list[Finding] = []
    later: list[Finding] = []
    for each in sorted(found, key=lambda each: turn.get(each.key, -1)):
        if each.kind is Kind.UNTAGGED_INSTANCE:
            tags -= 1
            fits = tags >= 0
        elif each.kind is Kind.FOREIGN_FINALIZER:
            fits = True
        else:
            actions -= 1
            fits = actions >= 0
        (now if fits else later).append(each)
    return now, later
