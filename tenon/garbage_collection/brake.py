"""Stops a sweep that would end many things at once because they are missing from an answer.

A wrong account, region or cluster, a NodeClaim list restored from an old backup, or an incomplete answer makes many
things look lost that are not. Ending them cannot be undone, so a person decides. What a record itself calls lost is not
held back: EC2 says that the instance is terminated, or the NodeClaim names another instance. That an instance is young
and has no Node says nothing: with the wrong API server, or after a restore, this holds for nodes that run pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tenon.garbage_collection import claims, instances, orphans
from tenon.garbage_collection.facts import GONE_STATES, Graces, Observations
from tenon.garbage_collection.findings import Finding, FindingKind

FEW = 5
"""So many findings of a kind never stop a sweep.

In a small cluster a few are soon a large share, and so many nodes are lost in ordinary operation.
"""
MAX_MISSING_PERCENT = 20
"""The share of all things of a kind that may look lost at once, as node repair uses it for unhealthy nodes."""
CHECK = "check that Tenon runs with the account, the region and the API server of the cluster"
CONFIRM = "then confirm it as docs/garbage-collection.md says"
BRAKED: dict[FindingKind, str] = {
    FindingKind.INSTANCE_WITHOUT_CLAIM: "instances have no NodeClaim",
    FindingKind.CLAIM_WITHOUT_INSTANCE: "NodeClaims have an instance that EC2 does not know",
    FindingKind.CLAIM_WITHOUT_NODE: "NodeClaims have lost their Node",
    FindingKind.WORKFLOW_WITHOUT_CLAIM: "workflows of nodes have no NodeClaim",
    FindingKind.NODE_WITHOUT_CLAIM: "Nodes have neither a NodeClaim nor an instance",
}
"""The kinds whose findings end a node, and what many of them say."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The findings of a kind that a person must confirm. ``missing`` of ``total`` things look lost.

    Those about workflows include findings about the instances of these workflows.
    """

    kind: FindingKind
    missing: int
    total: int
    findings: tuple[Finding, ...]

    @property
    def why(self) -> str:
        """Why the sweep ends none of them, and what to do."""
        return (
            f"{self.missing} of {self.total} {BRAKED[self.kind]}, more than {MAX_MISSING_PERCENT}%, "
            f"so sweeps end none of them: {CHECK}, {CONFIRM}"
        )


def held_back(
    sweep_findings: Iterable[Finding], observations: Observations, graces: Graces, confirmed: int = 0
) -> tuple[list[Finding], list[HeldBack]]:
    """Split the findings into those that a sweep may act on and those that wait for a person.

    ``confirmed``: how many findings a person has confirmed. If more must wait now, none of them is confirmed, because
    the person has not seen them all.
    """
    sweep_findings = list(sweep_findings)
    brakes = list(_held(sweep_findings, observations, graces))
    if sum(len(brake.findings) for brake in brakes) <= confirmed:
        return sweep_findings, []
    waiting = {finding.key for brake in brakes for finding in brake.findings}
    return [finding for finding in sweep_findings if finding.key not in waiting], brakes


def is_too_many(missing: int, total: int) -> bool:
    """Whether so many things look lost at once that the cause is probably not the things."""
    return missing > FEW and missing * 100 > total * MAX_MISSING_PERCENT


def _held(sweep_findings: Iterable[Finding], observations: Observations, graces: Graces) -> Iterable[HeldBack]:
    suspects: dict[FindingKind, list[Finding]] = {}
    for finding in sweep_findings:
        if finding.kind in BRAKED and not finding.confirmed:
            suspects.setdefault(finding.kind, []).append(finding)
    brakes: dict[FindingKind, HeldBack] = {}
    for kind, findings in suspects.items():
        missing, total = _counts(kind, len(findings), observations, graces)
        if is_too_many(missing, total):
            brakes[kind] = HeldBack(kind, missing, total, tuple(findings))
    workflows = brakes.get(FindingKind.WORKFLOW_WITHOUT_CLAIM)
    if workflows is not None and FindingKind.INSTANCE_WITHOUT_CLAIM not in brakes:
        # A node whose workflow waits for a person must not lose its instance in the meantime.
        waiting = {finding.claim for finding in workflows.findings}
        theirs = [
            suspect for suspect in suspects.get(FindingKind.INSTANCE_WITHOUT_CLAIM, ()) if suspect.claim in waiting
        ]
        brakes[workflows.kind] = replace(workflows, findings=(*workflows.findings, *theirs))
    return brakes.values()


def _counts(kind: FindingKind, findings: int, observations: Observations, graces: Graces) -> tuple[int, int]:
    """How many things look lost, and among how many."""
    match kind:
        case FindingKind.CLAIM_WITHOUT_INSTANCE:
            # Ready Nodes keep their claims, but EC2 does not know their instances either if the account is wrong.
            due = [claim.instance_id for claim in claims.with_due_instances(observations, graces)]
            states = observations.known_states
            return sum(instance_id not in states for instance_id in due), len(due)
        case FindingKind.CLAIM_WITHOUT_NODE:
            return findings, sum(1 for _ in claims.registered(observations))
        case FindingKind.INSTANCE_WITHOUT_CLAIM:
            # What is left to a workflow is no finding yet, but it lacks its NodeClaim for the same reason.
            total = sum(instance.state not in GONE_STATES for instance in observations.instances or ())
            return instances.count_without_claim(observations, graces), total
        case FindingKind.WORKFLOW_WITHOUT_CLAIM:
            return findings, sum(not workflow.leaving for workflow in observations.workflows or ())
        case _:
            return findings, sum(1 for _ in orphans.own_nodes(observations))
