"""A command is checked again shortly before it starts (DIS-46): what ends it, and what does not."""

from __future__ import annotations

import pytest

from tenon.disruption.commands import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.validation import why_invalid
from tenon.lifecycle.messages.disruption import DisruptionCommand, Replacement
from tests.disruption.clusters import Cluster, situation

HOST = {"type": "m5.large", "pods": [{"cpu": "900m", "memory": "2Gi"}], "protected": True}
SPARE = {"type": "m5.large", "pods": [{"cpu": "100m", "memory": "128Mi"}]}


def cluster(budget: str = "100%", **spare: object) -> Cluster:
    """The cluster in which the spare node's pod moves to the other node; ``spare`` changes that node."""
    pool = {"consolidate_after": "30s", "budgets": [{"nodes": budget}]}
    return Cluster.model_validate({"pools": {"default": pool}, "nodes": {"host": HOST, "spare": {**SPARE, **spare}}})


def deletion() -> DisruptionCommand:
    seen = situation(cluster())
    assert seen.model is not None
    (command,) = decide(seen, [Consolidation()]).commands
    assert ([one.node.claim for one in command.candidates], command.replacements) == (["spare"], ())
    return to_message(command, ident="underutilized-1", pods={"spare": seen.model.details["spare"].pods})


def test_dis46_a_command_on_a_cluster_that_did_not_change_holds() -> None:
    assert why_invalid(deletion(), situation(cluster())) == ""


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (cluster(protected=True), "NodeClaim spare may not be disrupted any more"),
        (cluster(held_by="pod default/a is protected"), "NodeClaim spare: pod default/a is protected"),
        (cluster(quiet="0s"), "NodeClaim spare: a pod came or went"),
        (cluster(pods=[{"cpu": "1500m"}]), "its pods need 1 new nodes instead of 0"),
    ],
    ids=["protected", "held", "pod-event", "no-room"],
)
def test_dis46_a_command_ends_if_what_it_was_decided_on_is_gone(now: Cluster, why: str) -> None:
    assert why_invalid(deletion(), situation(now)) == why


def test_dis46_a_command_whose_pods_fit_into_its_replacements_holds() -> None:
    replaced = deletion().model_copy(update={"replacements": [Replacement(name="new", pool="default", body={})]})
    assert why_invalid(replaced, situation(cluster(pods=[{"cpu": "1500m"}]))) == ""


def test_dis46_dis51_a_command_ends_if_the_budget_was_used_up() -> None:
    assert (
        why_invalid(deletion(), situation(cluster("0"))) == "the budgets of NodePool default do not allow it any more"
    )


def test_dis46_a_simulation_that_takes_too_long_ends_a_command() -> None:
    assert why_invalid(deletion(), situation(cluster()), lambda: True) == "the simulation took too long"


def test_a_pod_that_came_after_the_decision_ends_a_command_also_without_consolidate_after() -> None:
    """With 0s, the time of the last pod event says nothing."""
    busier = cluster(pods=[*SPARE["pods"], {"cpu": "100m", "memory": "128Mi"}])
    pool = busier.pools["default"].model_copy(update={"consolidate_after": "0s"})
    now = busier.model_copy(update={"pools": {"default": pool}})
    assert why_invalid(deletion(), situation(now)).endswith("came after the decision")
