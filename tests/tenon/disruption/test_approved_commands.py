"""Validating commands that a person approved: days may have gone by since they were decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.apis.approvals import (
    DEFAULT_WITHIN,
)
from tenon.apis.hashing import nodepool_hashes
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.freezes.freeze import Freeze
from tenon.disruption.situation import Situation
from tenon.disruption.validation import Validation, changed_pool, overtaken, validated, validated_empty
from tenon.evolve import evolve
from tenon.messages.base import REBOOT
from tenon.messages.disruption import DisruptionCommand, Replacement
from tenon.provisioning.claims import static_claim_body
from tenon.rollout.versions import PoolPhase, PoolRollout
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.disruption.approval_setting import SMALL, decided, drifted_cluster, nodes_of
from tests.tenon.disruption.clusters import (
    Cluster,
    NodeSpec,
    PodSpec,
    PolicySpec,
    PoolSpec,
    RepairSpec,
    situation,
)


def test_an_approved_command_takes_its_budget_and_current_replacements() -> None:
    """Its replacements were planned days before, so it gets those of now, and the budget may be used meanwhile."""
    state = drifted_cluster(2, approve="Drifted", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    model = state.model
    assert model is not None
    types = list(command.replacements[0].instance_types)
    requirement = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": types}
    body = {"metadata": {}, "spec": {"requirements": [requirement]}}
    replacements = [Replacement(name="r", pool="default", body=body)]
    message = to_message(command, replacements=replacements, details=model.details)
    validation = validated(message, state)
    assert validation.why == ""
    assert validation.instead is not None
    assert nodes_of(validation.instead) == nodes_of(command)
    (other,) = {node.claim for node in state.nodes} - set(nodes_of(command))
    full = validated(message, replace(state, under_command=frozenset({other})))
    assert (full.is_full, full.why) == (True, "the budgets of NodePool default do not allow it any more")
    unasked = validated(evolve(message, approval=None), state)
    assert unasked.instead is None or unasked.why, "others take new ones only if they need them"


def test_an_approved_command_for_empty_nodes_takes_those_that_are_still_empty() -> None:
    nodes = {name: NodeSpec(type="m5.large") for name in ("a", "b", "c")}
    pool = PoolSpec(approve="Empty", budgets=[{"nodes": "100%"}])
    state = situation(Cluster(pools={"default": pool}, nodes=nodes))
    message = to_message(decided(state).commands[0])
    assert validated_empty(message, state)[1] == ["a", "b", "c"]
    used = replace(state, nodes=[replace(node, empty=node.claim != "b") for node in state.nodes])
    assert validated_empty(message, used)[1] == ["a", "c"]
    bounded = situation(Cluster(pools={"default": PoolSpec(budgets=[{"nodes": "1"}])}, nodes=nodes))
    assert validated_empty(message, bounded)[1] == ["a"]
    validation, claims = validated_empty(message, replace(bounded, under_command=frozenset({"b"})))
    assert (validation.is_full, claims) == (True, [])
    without_nodes = validated_empty(message, replace(state, nodes=[]))
    assert without_nodes[0].why == "none of its nodes is empty any more, or something else keeps them"


def test_an_approved_command_of_a_static_nodepool_waits_for_room_for_its_replacement() -> None:
    """It was decided while there was room, and the same room was there for each command that awaited approval."""
    pool = {"replicas": 2, "limits": {"nodes": "3"}, "budgets": [{"nodes": "100%"}]}
    state = drifted_cluster(2, approve="Drifted", **pool)
    command = decided(state).commands[0]
    assert state.model is not None
    message = to_message(command, details=state.model.details)
    assert message.approval is not None
    assert validated(message, state) == Validation()
    (other,) = {node.claim for node in state.nodes} - set(nodes_of(command))
    waiting = Validation("limits.nodes leaves no room until other replacements are done", is_full=True)
    assert validated(message, replace(state, under_command=frozenset({other}))) == waiting
    at_limit = drifted_cluster(2, approve="Drifted", **pool | {"limits": {"nodes": "2"}})
    assert validated(message, at_limit).is_full


def test_an_approved_reboot_in_a_static_nodepool_needs_no_room() -> None:
    pool = PoolSpec(replicas=1, limits={"nodes": "1"}, approve="Unhealthy", budgets=[{"nodes": "100%"}])
    node = NodeSpec(type="m5.large", conditions={"Ready": ("False", "2h", "KubeletNotReady")})
    policy = PolicySpec(condition="Ready", after="30m", reboots=True)
    state = situation(
        Cluster(pools={"default": pool}, nodes={"n0": node}, repair=RepairSpec(pools={"default": [policy]}))
    )
    (command,) = decided(state).commands
    assert state.model is not None
    message = to_message(command, details=state.model.details)
    assert (message.decision, message.approval is not None) == (REBOOT, True)
    assert validated(message, state) == Validation()


def underutilized(price: float, least_saving: str | None = None, pod: PodSpec = SMALL) -> Situation:
    """A node of m5.2xlarge at this price, whose pod fits on an m5.large, and may run on nothing that exists."""
    pool = PoolSpec(types=["m5.large", "m5.xlarge"], approve="Underutilized", least_saving=least_saving)
    node = NodeSpec(type="m5.2xlarge", price=price, pods=[pod])
    return situation(Cluster(pools={"default": pool}, nodes={"n0": node}))


def approved_consolidation() -> DisruptionCommand:
    """The command of `underutilized` at $0.384, as a person approved it: m5.large or m5.xlarge for an m5.2xlarge."""
    state = underutilized(0.384)
    (command,) = decided(state).commands
    assert (command.reason, command.approve_within) == (Reason.UNDERUTILIZED, DEFAULT_WITHIN)
    (planned,) = command.replacements
    assert set(planned.instance_types) == {"m5.large", "m5.xlarge"}
    terms = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(planned.instance_types)},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]
    body = {"metadata": {}, "spec": {"requirements": terms}}
    assert state.model is not None
    return to_message(
        command,
        replacements=[Replacement(name="r", pool="default", body=body)],
        details=state.model.details,
    )


def test_an_approved_consolidation_buys_what_still_saves_money() -> None:
    """The node became cheaper since, so the dearer of the two types is no saving any more."""
    validation = validated(approved_consolidation(), underutilized(0.384))
    assert (validation.why, validation.instead is not None) == ("", True)
    validation = validated(approved_consolidation(), underutilized(0.15))
    assert validation.why == ""
    assert validation.instead is not None
    (planned,) = validation.instead.replacements
    assert planned.instance_types == ("m5.large",)
    assert validation.instead.guaranteed_saving == pytest.approx(0.15 - 0.096)
    assert nodes_of(validation.instead) == ["n0"]


@pytest.mark.parametrize(
    ("price", "least_saving", "why"),
    [
        (0.09, None, "it saves nothing any more: its nodes cost $0.0900 an hour and their replacements $0.0960 by now"),
        (0.096, None, "it saves nothing any more: its nodes cost $0.0960 an hour and their replacements $0.0960"),
        (0.15, "0.06", "it saves too little by now: its nodes cost $0.1500 an hour and their replacements $0.0960"),
    ],
)
def test_an_approved_consolidation_whose_saving_has_gone_ends(price: float, least_saving: str | None, why: str) -> None:
    validation = validated(approved_consolidation(), underutilized(price, least_saving))
    assert validation.why.startswith(why)
    assert (validation.instead, validation.is_full) == (None, False)


def test_a_consolidation_that_nobody_had_to_approve_is_not_priced_again() -> None:
    """It was priced seconds before, so its check is as it was."""
    command = evolve(approved_consolidation(), approval=None)
    assert validated(command, underutilized(0.09)).why == ""


def test_an_approved_consolidation_that_only_moves_pods_keeps_its_plan() -> None:
    nodes = {
        "host": NodeSpec(type="m5.large", pods=[SMALL], protected=True),
        "spare": NodeSpec(type="m5.large", pods=[SMALL]),
    }
    state = situation(Cluster(pools={"default": PoolSpec(approve="Underutilized")}, nodes=nodes))
    (command,) = decided(state).commands
    assert (nodes_of(command), command.replacements) == (["spare"], ())
    assert state.model is not None
    message = to_message(command, details=state.model.details)
    assert validated(message, state) == Validation()


def frozen(state: Situation) -> Situation:
    """The situation while a DisruptionFreeze holds."""
    freezes = (Freeze("release"),)
    return replace(state, policies={name: replace(policy, freezes=freezes) for name, policy in state.policies.items()})


def test_an_approved_command_waits_for_the_end_of_a_freeze() -> None:
    """Nobody should have to approve it twice. Whatever else keeps a node still ends the command."""
    state = drifted_cluster(2, approve="Drifted", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    assert state.model is not None
    message = to_message(command, details=state.model.details)
    validation = validated(message, frozen(state))
    assert validation.is_full
    assert "is frozen by DisruptionFreeze release until it is deleted" in validation.why
    (claim,) = nodes_of(command)
    protected = [replace(node, protected_by="Node") if node.claim == claim else node for node in state.nodes]
    assert not validated(message, frozen(replace(state, nodes=protected))).is_full


@pytest.mark.parametrize(
    ("phase", "is_waiting"), [(PoolPhase.PROGRESSING, True), (PoolPhase.PAUSED, False), (PoolPhase.HALTED, False)]
)
@pytest.mark.parametrize("is_frozen", [True, False])
def test_an_approved_command_waits_until_its_wave_goes_on(phase: PoolPhase, is_waiting: bool, is_frozen: bool) -> None:
    """While a freeze holds or a window is closed, and until the rollout has noticed the end, no node is in a wave."""
    state = drifted_cluster(2, approve="Drifted", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    assert state.model is not None
    message = to_message(command, details=state.model.details)
    rollout_state = replace(state, rollouts={"default": PoolRollout("nodes", "default", "old", "new", phase)})
    validation = validated(message, frozen(rollout_state) if is_frozen else rollout_state)
    assert validation.is_full is is_waiting
    assert ("is frozen by" if is_frozen else "NodeRollout nodes is") in validation.why
    (claim,) = nodes_of(command)
    protected = [replace(node, protected_by="Node") if node.claim == claim else node for node in rollout_state.nodes]
    assert not validated(message, frozen(replace(rollout_state, nodes=protected))).is_full


def test_an_approved_command_for_empty_nodes_waits_for_the_end_of_a_freeze() -> None:
    nodes = {name: NodeSpec(type="m5.large") for name in ("a", "b")}
    state = situation(Cluster(pools={"default": PoolSpec(approve="Empty", budgets=[{"nodes": "100%"}])}, nodes=nodes))
    message = to_message(decided(state).commands[0])
    validation, claims = validated_empty(message, frozen(state))
    assert (validation.is_full, claims) == (True, [])
    assert "is frozen by DisruptionFreeze release" in validation.why
    used = replace(state, nodes=[replace(node, empty=False) for node in state.nodes])
    assert not validated_empty(message, frozen(used))[0].is_full


def test_a_nodepool_that_changed_meanwhile_is_noticed() -> None:
    pool = node_pool()
    assert pool.metadata.name == "default"
    message = to_message(decided(drifted_cluster(1)).commands[0])
    of_another_template = Replacement(
        name="r", pool="default", body={"metadata": {"annotations": {labels.NODEPOOL_HASH: "1"}}}
    )
    changed = changed_pool(evolve(message, replacements=[of_another_template]), [pool])
    assert changed == "NodePool default has changed since the command was decided"
    assert changed_pool(message, [pool]) == ""


@pytest.mark.parametrize(("planned", "launched"), [("v2", "v3"), ("v2", ""), ("", "v2")])
def test_another_version_of_a_nodepool_is_noticed_although_its_template_is_the_same(
    planned: str, launched: str
) -> None:
    """A rollout of another AMI changes the EC2NodeClass, and nothing in the NodePool."""

    def version(digest: str) -> dict[str, str]:
        return {labels.REVISION: digest} if digest else {}

    pool = node_pool(annotations=version(launched))

    def planned_with(digest: str) -> DisruptionCommand:
        body = {"metadata": {"annotations": nodepool_hashes(pool) | version(digest)}}
        replacement = Replacement(name="r", pool="default", body=body)
        return evolve(to_message(decided(drifted_cluster(1)).commands[0]), replacements=[replacement])

    assert changed_pool(planned_with(launched), [pool]) == ""
    assert changed_pool(planned_with(planned), [pool]) == ("NodePool default has changed since the command was decided")


def test_an_annotation_of_a_template_that_names_a_version_is_no_change() -> None:
    """NodeClaims get it with the other annotations of the template, and no rollout wrote it."""
    edits = {"template/metadata": {"annotations": {labels.REVISION: "mine"}}}
    pool = node_pool(edits=edits)
    (command,) = decided(drifted_cluster(1)).commands
    body = static_claim_body(command.replacements[0], pool, "r")
    assert body["metadata"]["annotations"][labels.REVISION] == "mine"
    message = to_message(command, replacements=[Replacement(name="r", pool="default", body=body)])
    assert changed_pool(message, [pool]) == ""


def test_an_approved_command_waits_if_others_started_while_it_was_checked() -> None:
    state = drifted_cluster(2, approve="Drifted", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    assert state.model is not None
    message = to_message(command, details=state.model.details)
    (own,) = nodes_of(command)
    (other,) = {node.claim for node in state.nodes} - {own}
    assert overtaken(message, state) == Validation()
    full = Validation("the budgets of NodePool default do not allow it any more", is_full=True)
    assert overtaken(message, replace(state, under_command=frozenset({other}))) == full
    under_another = replace(state, under_command=frozenset({own}))
    assert overtaken(message, under_another) == Validation(f"NodeClaim {own}: an open disruption command removes it")
    assert overtaken(message, replace(state, nodes=[])) == Validation(f"NodeClaim {own} is gone")
