"""What a simulation takes from a live cluster and its account, besides objects: reservations, commitments, refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.commitments.coverage import NO_COVERAGE, Coverage
from tenon.kube.offerings import OfferingKey
from tenon.rollout.revisions import class_key
from tenon.scheduling.offerings.spot_scores import ScoresOf
from tenon.simulation import stated_scores
from tenon.simulation.decisions import Reserved
from worker.cache.planning_view import PlanningView

if TYPE_CHECKING:  # a plan from files needs no message
    from tenon.messages.disruption import OpenCommand


def reserved_places(view: PlanningView, notes: list[str]) -> Reserved:
    """The free places of capacity reservations."""
    from cli.simulating.reservations import read_places

    return Reserved(read_places(node_classes(view), notes), view.reserved_claims())


def live_coverage(view: PlanningView, notes: list[str], *, live: bool) -> Coverage:
    """What Reserved Instances and Savings Plans cover."""
    if not live:
        notes.append("setting ENABLE_COMMITMENTS has an effect with --live only")
        return NO_COVERAGE
    from cli.simulating.commitments import read_coverage

    return read_coverage(node_classes(view), list(view.all_claims()), notes)


def scores_for(score_texts: Sequence[str], view: PlanningView, notes: list[str], *, live: bool) -> ScoresOf:
    """The Spot placement scores that a user stated, or those of the account."""
    if score_texts or not live:
        return stated_scores.stated_scores(score_texts, notes)
    from cli.simulating.spot_scores import LiveScores

    return LiveScores(node_classes(view), notes).scores_of


def node_classes(view: PlanningView) -> Iterator[EC2NodeClass]:
    """Yield the EC2NodeClasses of the NodePools."""
    names = {class_key(pool) for pool in view.node_pools()}
    return filter(None, (view.node_class(name) for name in sorted(names)))


def live_unavailable(notes: list[str]) -> Mapping[OfferingKey, datetime]:
    """What EC2 refuses, with the time of the next attempt."""
    from cli.simulating.refusals import read_unavailable

    return read_unavailable(notes)


def live_open_commands(notes: list[str]) -> Mapping[str, OpenCommand]:
    """The disruption commands that are under way, by NodeClaim."""
    from cli.simulating.open_commands import read_open_commands

    return read_open_commands(notes)
