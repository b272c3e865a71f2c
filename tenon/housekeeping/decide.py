"""Decides what a sweep does: all findings, oldest first, up to the limit of its actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenon.housekeeping import claims, instances, orphans
from tenon.housekeeping.facts import Graces, Observations
from tenon.housekeeping.findings import Finding, Kind

GRACES = Graces()


def findings(seen: Observations, graces: Graces = GRACES) -> list[Finding]:
    """Return everything that is lost or wrong, oldest first. Records that could not be read give no findings."""
    found = [
        *instances.without_claim(seen, graces),
        *claims.without_instance(seen, graces),
        *claims.without_workflow(seen, graces),
        *claims.held_by_foreign_finalizers(seen),
        *orphans.workflows(seen, graces),
        *orphans.nodes(seen, graces),
        *orphans.templates(seen, graces),
        *instances.untagged(seen),
    ]
    return sorted(found, key=lambda each: (each.since, each.kind, each.name))


def split_by_limits(
    found: Iterable[Finding], actions: int, tags: int, failed: Sequence[str] = ()
) -> tuple[list[Finding], list[Finding]]:
    """Split the findings into those that this sweep acts on and those that wait for the next one.

    Finalizers of others are only reported, so they are never put off. Findings whose action ``failed`` in earlier
    sweeps come last, in that order, so that they do not keep others from their turn.
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
