"""Decides what a sweep does: all findings, oldest first and launch templates last, up to the limit of its actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenon.garbage_collection import claims, instances, orphans
from tenon.garbage_collection.facts import Graces, Observations
from tenon.garbage_collection.findings import Finding, FindingKind

GRACES = Graces()


def findings(observations: Observations, graces: Graces = GRACES) -> list[Finding]:
    """Return everything that is lost or wrong, oldest first. Records that could not be read give no findings.

    Launch templates come last: they cost nothing, and there may be thousands.
    """
    all_findings = [
        *instances.without_claim(observations, graces),
        *claims.without_instance(observations, graces),
        *claims.without_node(observations, graces),
        *claims.without_workflow(observations, graces),
        *claims.held_by_foreign_finalizers(observations),
        *orphans.workflows(observations, graces),
        *orphans.nodes(observations, graces),
        *orphans.templates(observations, graces),
        *instances.untagged(observations),
    ]
    return sorted(
        all_findings,
        key=lambda finding: (
            finding.kind is FindingKind.UNUSED_TEMPLATE,
            finding.since,
            finding.kind,
            finding.name,
        ),
    )


def split_by_limits(
    sweep_findings: Iterable[Finding], actions: int, tags: int, failed: Sequence[str] = ()
) -> tuple[list[Finding], list[Finding]]:
    """Split the findings into those that this sweep acts on and those that wait for the next one.

    Finalizers of others are only reported, so they are never put off. Findings whose action ``failed`` in earlier
    sweeps come last, in that order, so that they do not keep others from their turn.
    """
    turn = {key: place for place, key in enumerate(failed)}
    now: list[Finding] = []
    later: list[Finding] = []
    for finding in sorted(sweep_findings, key=lambda finding: turn.get(finding.key, -1)):
        if finding.kind is FindingKind.UNTAGGED_INSTANCE:
            tags -= 1
            fits = tags >= 0
        elif finding.kind is FindingKind.FOREIGN_FINALIZER:
            fits = True
        else:
            actions -= 1
            fits = actions >= 0
        (now if fits else later).append(finding)
    return now, later
