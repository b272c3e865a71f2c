"""A command is checked again shortly before it starts (DIS-46): what ends it, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.drift import Drift
from tenon.disruption.situation import Situation
from tenon.disruption.validation import Validation, still_allowed, validated
from tenon.messages.disruption import DisruptionCommand, Replacement
from tests.tenon.disruption.clusters import Cluster, situation

HOST = {"type": "m5.large", "pods": [{"cpu": "900m", "memory": "2Gi"}], "protected": True}
SPARE = {"type": "m5.large", "pods": [{"cpu": "100m", "memory": "128Mi"}]}


def cluster(budget: str = "100%", **spare: object) -> Cluster:
    """The cluster in which the spare node's pod moves to the other node; ``spare`` changes that node."""
    pool = {"consolidate_after": "30s", "budgets": [{"nodes": budget}]}
    return Cluster.model_validate({"pools": {"default": pool}, "nodes": {"host": HOST, "spare": {**SPARE, **spare}}})


def deletion() -> DisruptionCommand:
    observations = situation(cluster())
    assert observations.model is not None
    (command,) = decide(observations, [Consolidation()]).commands
    assert ([candidate.node.claim for candidate in command.candidates], command.replacements) == (["spare"], ())
    return to_message(command, ident="underutilized-1", details=observations.model.details)


def test_dis46_a_command_on_a_cluster_that_did_not_change_holds() -> None:
    assert validated(deletion(), situation(cluster())).why == ""


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (
            cluster(protected=True),
            'NodeClaim spare: the "karpenter.sh/do-not-disrupt" annotation of its Node protects it',
        ),
        (cluster(held_by="pod default/a is protected"), "NodeClaim spare: pod default/a is protected"),
        (
            cluster(quiet="0s"),
            "NodeClaim spare: a pod came or went, or the node was initialized, at 2026-11-21 12:00:00 UTC, and "
            "consolidateAfter of NodePool default is over at 2026-11-21 12:00:30 UTC",
        ),
        (
            cluster(quiet=None),
            "NodeClaim spare: it is not known when a pod last came or went",
        ),
        (
            cluster(price=0.0),
            "NodeClaim spare: its price is not known: the catalogue has no m5.large (on-demand, us-west-2a)",
        ),
        (cluster(pods=[{"cpu": "1500m"}]), "its pods need 1 new node instead of none"),
    ],
    ids=["protected", "held", "pod-event", "no-pod-event-known", "no-price", "no-room"],
)
def test_dis46_a_command_ends_if_what_it_was_decided_on_is_gone(now: Cluster, why: str) -> None:
    assert validated(deletion(), situation(now)).why == why


def test_dis46_a_command_ends_if_its_claim_was_replaced_by_one_of_the_same_name() -> None:
    result = situation(cluster())
    again = [replace(node, uid="another") if node.claim == "spare" else node for node in result.nodes]
    assert validated(deletion(), replace(result, nodes=again)).why == "NodeClaim spare is gone"
    assert still_allowed([deletion()], result) == [deletion()]
    assert still_allowed([deletion()], replace(result, nodes=again)) == []


def test_wsh01_a_command_does_not_start_if_its_pool_was_slowed_down_meanwhile() -> None:
    result = situation(cluster())
    waits = replace(result, slowed={"default": "the last commands saved nothing"})
    assert (
        validated(deletion(), waits).why
        == "NodeClaim spare: NodePool default is slowed down: the last commands saved nothing"
    )
    assert validated(deletion(), replace(result, slowed={"default": ""})).why == ""


def test_dis46_a_command_whose_pods_fit_into_its_replacements_holds() -> None:
    busier = situation(cluster(pods=[{"cpu": "1500m"}]))
    assert validated(replaced_by("default", "m5.large"), busier).why == ""


@pytest.mark.parametrize(("pool", "kind"), [("default", "t3.micro"), ("other", "m5.large")])
def test_dis46_a_command_ends_if_its_pods_need_what_its_replacements_may_not_be(pool: str, kind: str) -> None:
    busier = situation(cluster(pods=[{"cpu": "1500m"}]))
    assert (
        validated(replaced_by(pool, "m5.large", kind), busier).why
        == "its pods need other instance types than its replacements"
    )


def test_dis46_a_replacement_that_may_be_of_any_type_serves_no_pod_for_certain() -> None:
    replacement = Replacement(name="new", pool="default", body={"spec": {}})
    command = deletion().model_copy(update={"replacements": [replacement]})
    busier = situation(cluster(pods=[{"cpu": "1500m"}]))
    assert validated(command, busier).why == "its pods need other instance types than its replacements"


def replaced_by(pool: str, *kinds: str) -> DisruptionCommand:
    """The command with a replacement of one of these types."""
    requirement = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(kinds)}
    body = {"spec": {"requirements": [requirement]}}
    return deletion().model_copy(update={"replacements": [Replacement(name="new", pool=pool, body=body)]})


@pytest.mark.parametrize(
    "changed",
    [{"underCommand": ["host"]}, {"nodes": {"host": {**HOST, "replacement_for": "another"}, "spare": SPARE}}],
    ids=["leaves", "is-taken"],
)
def test_dis46_a_command_ends_if_another_command_has_its_room(changed: dict[str, object]) -> None:
    described = cluster().model_dump(by_alias=True) | changed
    now = situation(Cluster.model_validate(described))
    assert validated(deletion(), now).why == "its pods need 1 new node instead of none"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"pools": {"default": {"policy": "WhenEmpty"}}},
            "consolidationPolicy of NodePool default is WhenEmpty, and it has 1 pod",
        ),
        (
            {"pools": {"default": {"resolved": False}}},
            "NodePool default can launch no nodes now, so its nodes are not consolidated",
        ),
        ({"bufferHosts": ["spare"]}, "a CapacityBuffer or the floor of a NodeSchedule keeps room on it"),
    ],
    ids=["policy", "no-types", "buffer"],
)
def test_dis46_cb08_a_command_ends_if_its_node_is_no_candidate_any_more(changed: dict[str, object], why: str) -> None:
    described = cluster().model_dump(by_alias=True) | changed
    assert validated(deletion(), situation(Cluster.model_validate(described))).why == f"NodeClaim spare: {why}"


DRIFTED = {**SPARE, "drifted": "NodePoolDrifted"}


def drift_of(described: Cluster) -> DisruptionCommand:
    """The command for the drifted node, whose pod still moves to the other node then."""
    observations = situation(described)
    assert observations.model is not None
    (command,) = decide(observations, [Drift()]).commands
    assert ([candidate.node.claim for candidate in command.candidates], command.replacements) == (["spare"], ())
    return to_message(command, ident="drifted-1", details=observations.model.details)


def test_dis03_a_drift_command_whose_room_is_gone_takes_the_new_nodes_that_its_pods_need_now() -> None:
    """DIS-03: upstream replaces a drifted node as the simulation says, and does not validate it again."""
    nodes = {"host": HOST, "spare": DRIFTED}
    pool = {"consolidate_after": "30s", "budgets": [{"nodes": "100%"}]}
    command = drift_of(Cluster.model_validate({"pools": {"default": pool}, "nodes": nodes}))
    busy = {"host": {**HOST, "replacement_for": "another"}, "spare": DRIFTED}
    now = situation(Cluster.model_validate({"pools": {"default": pool}, "nodes": busy}))
    validation = validated(command, now)
    assert validation.why == "its pods need 1 new node instead of none"
    assert validation.instead is not None
    (replacement,) = validation.instead.replacements
    assert (replacement.pool, validation.instead.reason, validation.instead.graceful) == (
        "default",
        Reason.DRIFTED,
        False,
    )
    assert [candidate.node.claim for candidate in validation.instead.candidates] == ["spare"]
    assert validated(command, situation(cluster(drifted="NodePoolDrifted"))) == Validation()


def test_dis03_a_drift_command_takes_instance_types_that_its_replacement_may_not_be() -> None:
    nodes = {"spare": {"type": "m5.large", "pods": [{"cpu": "1500m"}], "drifted": "NodePoolDrifted"}}
    pool = {"consolidate_after": "30s", "budgets": [{"nodes": "100%"}]}
    now = situation(Cluster.model_validate({"pools": {"default": pool}, "nodes": nodes}))
    command = replaced_by("default", "t3.micro").model_copy(update={"reason": Reason.DRIFTED, "graceful": False})
    validation = validated(command, now)
    assert validation.why == "its pods need other instance types than its replacements"
    assert validation.instead is not None
    assert "t3.micro" not in validation.instead.replacements[0].instance_types


CHANGED = "NodePool default has changed since the command was decided"


@pytest.mark.parametrize("reason", [Reason.DRIFTED, Reason.UNDERUTILIZED])
def test_dis03_dis46_replacements_of_an_earlier_template_are_not_bought(reason: Reason) -> None:
    """They would drift at once. Drift takes those of now, and consolidation is decided again."""
    drifted = {"drifted": "NodePoolDrifted"} if reason is Reason.DRIFTED else {}
    now = situation(cluster(pods=[{"cpu": "1500m"}], **drifted))
    command = replaced_by("default", "m5.large").model_copy(update={"reason": reason, "graceful": not drifted})
    assert validated(command, now) == Validation()
    validation = validated(command, now, outdated=CHANGED)
    assert validation.why == CHANGED
    assert (validation.instead is not None) is bool(drifted)


def test_a_replacement_of_an_earlier_template_in_a_static_nodepool_is_not_bought() -> None:
    command, drifted = of_a_static_nodepool()
    assert validated(command, drifted, outdated=CHANGED) == Validation(CHANGED)


def test_dis46_a_consolidation_command_whose_pods_need_other_nodes_ends() -> None:
    """Its aim is the price that it was decided on."""
    why = "its pods need 1 new node instead of none"
    assert validated(deletion(), situation(cluster(pods=[{"cpu": "1500m"}]))) == Validation(why)


@pytest.mark.parametrize(("cpus", "others", "starts"), [("6", [], True), ("6", ["host"], False), ("5", [], False)])
def test_dis03_new_nodes_of_a_drift_command_keep_within_limits_whatever_others_buy(
    cpus: str, others: list[str], *, starts: bool
) -> None:
    """Other commands that start now may buy as much. The node waits for the next pass, which counts what they buy."""
    nodes = {"host": {**HOST, "replacement_for": "another"}, "spare": DRIFTED}
    requirements = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}]
    pool = {"budgets": [{"nodes": "100%"}], "limits": {"cpu": cpus}, "requirements": requirements}
    described = {"pools": {"default": pool}, "nodes": nodes, "underCommand": others}
    command = drift_of(Cluster.model_validate({**described, "underCommand": [], "nodes": {**nodes, "host": HOST}}))
    validation = validated(command, situation(Cluster.model_validate(described)))
    assert (validation.instead is not None) is starts
    assert validation.why


def test_dis46_the_pods_of_a_static_nodepools_node_need_no_place_of_their_own() -> None:
    """Its node is replaced by one like it, from which no other plan buys."""
    command, drifted = of_a_static_nodepool()
    assert validated(command, drifted).why == ""


def of_a_static_nodepool() -> tuple[DisruptionCommand, Situation]:
    """A command for a drifted node of a static NodePool, and the situation in which it holds."""
    described = cluster().model_dump(by_alias=True)
    described["pools"]["default"]["replicas"] = 2
    described["nodes"]["spare"]["pods"] = [{"cpu": "1500m"}]
    observations = situation(Cluster.model_validate(described))
    assert observations.model is not None
    details = {name: replace(detail, drifted="NodePoolDrifted") for name, detail in observations.model.details.items()}
    drifted = replace(observations, model=replace(observations.model, details=details))
    return deletion().model_copy(update={"reason": Reason.DRIFTED, "graceful": False}), drifted


def test_dis51_commands_that_the_budgets_do_not_allow_any_more_are_dropped() -> None:
    """A pass takes a while. What started meanwhile uses up the same budgets."""
    nodes = dict.fromkeys(("a", "b", "c", "d"), SPARE)
    pool = {"consolidate_after": "30s", "budgets": [{"nodes": "2"}]}
    now = situation(Cluster.model_validate({"pools": {"default": pool}, "nodes": nodes}))

    def removing(name: str, reason: Reason = Reason.DRIFTED) -> DisruptionCommand:
        changed_candidate = deletion().candidates[0].model_copy(update={"claim": name, "uid": f"uid-{name}"})
        return deletion().model_copy(update={"candidates": [changed_candidate], "reason": reason})

    def kept(situation: Situation) -> list[str]:
        moves = [removing("a"), removing("b", Reason.UNDERUTILIZED), removing("c"), removing("a")]
        return [
            candidate.claim
            for disruption_command in still_allowed(moves, situation)
            for candidate in disruption_command.candidates
        ]

    assert kept(now) == ["a", "b"]
    assert kept(replace(now, under_command=frozenset({"d"}))) == ["a"]
    assert kept(replace(now, under_command=frozenset({"a"}))) == ["b"]
    assert kept(replace(now, postponed=frozenset({"a"}))) == ["b", "c"]
    assert kept(replace(now, under_command=frozenset({"c", "d"}))) == []


def test_dis46_dis51_a_command_ends_if_the_budget_was_used_up() -> None:
    assert (
        validated(deletion(), situation(cluster("0"))).why == "the budgets of NodePool default do not allow it any more"
    )


def test_dis46_a_simulation_that_takes_too_long_ends_a_command() -> None:
    assert validated(deletion(), situation(cluster()), lambda: True).why == "the simulation took too long"


def test_a_pod_that_came_later_ends_a_command_also_without_consolidate_after() -> None:
    """With 0s, the time of the last pod event says nothing."""
    busier = cluster(pods=[*SPARE["pods"], {"cpu": "100m", "memory": "128Mi"}])
    pool = busier.pools["default"].model_copy(update={"consolidate_after": "0s"})
    now = busier.model_copy(update={"pools": {"default": pool}})
    assert validated(deletion(), situation(now)).why.endswith("came after the decision")
