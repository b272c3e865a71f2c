"""Commands that wait for approval: the annotation, which commands wait, and what their nodes count as meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.approvals import (
    DEFAULT_WITHIN,
    EVERY_REASON,
    REASONS,
    ApprovalRule,
    read_approval_rules,
    read_approve_within,
)
from tenon.apis.reasons import Reason
from tenon.apis.validation import check_nodepool
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.open_commands import (
    awaiting_replacement,
    claims_of,
    claims_of_finished_commands,
    hosts_of,
    stale_commands,
    with_approved,
)
from tenon.disruption.deciding import decide, eligible
from tenon.disruption.freezes.freeze import Freeze
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.model import AskedApproval, Command, Decision, Situation, policy_of
from tenon.disruption.rules.approvals import MAX_WAITING, approvals_of, lost_cpu, no_longer_wanted, waiting_since
from tenon.disruption.rules.blockers import holds
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.validation import Validation, changed_pool, still_allowed, validated, validated_empty
from tenon.evolve import evolve
from tenon.messages.disruption import ApprovedReport, DisruptionCommand, OpenCommand, Replacement
from tenon.scheduling.deadline import never
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.disruption.clusters import NOW, Cluster, NodeSpec, PodSpec, PoolSpec, findings, situation
from tests.tenon.disruption.random_clusters import clusters

BIG = PodSpec(cpu="1500m", memory="2Gi")
SMALL = PodSpec(cpu="100m", memory="128Mi")
WAITING = OpenCommand(
    command="drifted-1",
    reason="Drifted",
    pool="default",
    until=NOW + timedelta(days=2),
    since=NOW,
    hosts=["host"],
    awaits_replacement=True,
    awaits_approval=True,
)
REFUSED = evolve(WAITING, postponed=True, awaits_approval=False, refused="ann refused it: release in progress")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Drifted", [ApprovalRule(Reason.DRIFTED)]),
        (" Empty ,Unhealthy", [ApprovalRule(Reason.EMPTY), ApprovalRule(Reason.UNHEALTHY)]),
        ("Underutilized above 3 nodes", [ApprovalRule(Reason.UNDERUTILIZED, 3)]),
        (
            "Empty above 1 node or 16 cpu, Drifted",
            [ApprovalRule(Reason.EMPTY, 1, 16_000), ApprovalRule(Reason.DRIFTED)],
        ),
        ("Empty above 0.5cpu", [ApprovalRule(Reason.EMPTY, None, 500)]),
    ],
)
def test_the_annotation_lists_reasons_each_with_amounts(text: str, expected: Sequence[ApprovalRule]) -> None:
    pool = node_pool(annotations={labels.APPROVE: text})
    assert check_nodepool(pool) == []
    assert policy_of(pool).approvals == tuple(expected)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a list of reasons"),
        ("Drifted,", "is not a list of reasons"),
        ("Drfted", "'Drfted' is not a reason: the reasons that may wait are Underutilized, Empty, Drifted, Unhealthy"),
        ("expired", "'expired' never waits for an approval"),
        ("Drain", "'Drain' never waits for an approval"),
        ("Drifted, Drifted above 2 nodes", "has Drifted twice"),
        ("Drifted above many", "'many' after Drifted is not an amount"),
        ("Drifted above 1.5 nodes", "'1.5 nodes' after Drifted is not an amount"),
        ("Drifted above 2 nodes or 3 nodes", "has two numbers of nodes"),
    ],
)
def test_what_cannot_be_read_is_named_and_every_command_waits(text: str, why: str) -> None:
    pool = node_pool(annotations={labels.APPROVE: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/approve]"
    assert why in fault.sentence
    assert policy_of(pool).approvals == EVERY_REASON


@pytest.mark.parametrize(("text", "hours"), [("1m", 1 / 60), ("48h", 48), ("720h", 720), ("1h30m", 1.5)])
def test_how_long_a_command_waits_is_a_go_duration(text: str, hours: float) -> None:
    assert read_approve_within(text) == timedelta(hours=hours)
    assert policy_of(node_pool(annotations={labels.APPROVE_WITHIN: text})).approve_within == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "Never", "2d", "0", "59s", "721h", "-1h"])
def test_a_time_that_cannot_be_read_is_named_and_the_default_counts(text: str) -> None:
    pool = node_pool(annotations={labels.APPROVE_WITHIN: text})
    (fault,) = check_nodepool(pool)
    assert "is not a duration from 1m to 720h" in fault.sentence
    assert policy_of(pool).approve_within == DEFAULT_WITHIN


@given(
    st.lists(
        st.tuples(
            st.sampled_from(REASONS),
            st.none() | st.integers(0, 999_999),
            st.none() | st.integers(0, 999_999_999),
        ),
        min_size=1,
        unique_by=lambda rule: rule[0],
    )
)
def test_every_list_of_rules_can_be_written(rules: list[tuple[Reason, int | None, int | None]]) -> None:
    """And a rule with higher amounts never has more commands wait."""
    parts = []
    for reason, nodes, cpu in rules:
        amounts = [
            *([f"{nodes} nodes"] if nodes is not None else []),
            *([f"{cpu / 1000:.3f} cpu"] if cpu is not None else []),
        ]
        parts.append(f"{reason.value} above {' or '.join(amounts)}" if amounts else reason.value)
    read = read_approval_rules(", ".join(parts))
    assert read == tuple(ApprovalRule(*rule) for rule in rules)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_a_larger_command_waits_if_a_smaller_one_does(
    above_nodes: int, above_cpu: int, nodes: int, cpu: int, more: int
) -> None:
    rule = ApprovalRule(Reason.EMPTY, above_nodes, above_cpu)
    if rule.applies(nodes, cpu):
        assert rule.applies(nodes + more, cpu)
        assert rule.applies(nodes, cpu + more)
    assert ApprovalRule(Reason.EMPTY).applies(nodes, cpu), "without amounts, every command waits"


def decided(state: Situation) -> Decision:
    decision = decide(state, (*METHODS, *moving_methods(never)))
    for error in decision.failed.values():
        raise error
    return decision


def nodes_of(command: Command) -> list[str]:
    return [candidate.node.claim for candidate in command.candidates]


def drifted_cluster(number: int, **pool: object) -> Situation:
    nodes = {f"n{place}": NodeSpec(type="m5.large", drifted="AMIDrift", pods=[BIG]) for place in range(number)}
    spec = PoolSpec.model_validate({"consolidate_after": None, **pool})
    return situation(Cluster(pools={"default": spec}, nodes=nodes))


def test_a_command_waits_as_long_as_its_nodepool_says_and_takes_no_budget() -> None:
    """Two nodes drifted, and the budget is one. Both may wait; and what does not ask is decided as ever."""
    state = drifted_cluster(2, approve="Drifted", approve_within="48h", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    assert command.approve_within == timedelta(hours=48)
    message = to_message(command)
    assert message.approval is not None
    assert message.approval.seconds == 48 * 3600
    open_commands = {nodes_of(command)[0]: evolve(WAITING, command="c1")}
    after = replace(
        state, approvals=approvals_of(open_commands), under_command=claims_of(open_commands, postponed=False)
    )
    assert PoolBudgets(after, Reason.DRIFTED).left("default") == 1
    (other,) = decided(after).commands
    assert set(nodes_of(other)).isdisjoint(nodes_of(command)), "it is not proposed twice"
    (unasked,) = decided(drifted_cluster(1)).commands
    assert (unasked.approve_within, to_message(unasked).approval) == (None, None)


def test_no_more_than_ten_commands_of_a_nodepool_wait() -> None:
    state = drifted_cluster(MAX_WAITING + 5, approve="Drifted")
    commands = decided(state).commands
    assert len(commands) == MAX_WAITING
    waiting = {
        claim: AskedApproval(f"c{number}", Reason.DRIFTED, "default", NOW)
        for number, claim in enumerate(nodes_of(commands[0]) + nodes_of(commands[1]))
    }
    assert len(decided(replace(state, approvals=waiting)).commands) == MAX_WAITING - 2
    refused = {
        claim: replace(waiting_approval, refused="ann refused it") for claim, waiting_approval in waiting.items()
    }
    assert len(decided(replace(state, approvals=refused)).commands) == MAX_WAITING, "a refusal takes no place"


def test_empty_nodes_wait_only_in_the_nodepools_that_ask() -> None:
    """Emptiness removes the nodes of all NodePools with one command, which is divided."""
    pools = {"asks": PoolSpec(approve="Empty"), "free": PoolSpec(), "also": PoolSpec(approve="Drifted")}
    nodes = {name: NodeSpec(pool=name, type="m5.large") for name in pools}
    commands = {
        tuple(nodes_of(command)): command.approve_within
        for command in decided(situation(Cluster(pools=pools, nodes=nodes))).commands
    }
    assert commands == {("asks",): DEFAULT_WITHIN, ("also", "free"): None}


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        ("Empty above 1 nodes", True),
        ("Empty above 2 nodes", False),
        ("Empty above 3 cpu", True),
        ("Empty above 4 cpu", False),
        ("Empty above 9 nodes or 3 cpu", True),
    ],
)
def test_an_amount_says_which_commands_wait(rule: str, waits: bool) -> None:
    """Two empty nodes of m5.large lose a bit less than 4 CPU."""
    nodes = {name: NodeSpec(type="m5.large") for name in ("a", "b")}
    (command,) = decided(situation(Cluster(pools={"default": PoolSpec(approve=rule)}, nodes=nodes))).commands
    assert nodes_of(command) == ["a", "b"]
    assert (command.approve_within is not None) == waits


def test_a_replacement_gives_cpu_back() -> None:
    """A drifted node that another of its size replaces loses nothing."""
    state = drifted_cluster(1, types=["m5.large"], approve="Drifted above 0 cpu")
    (command,) = decided(state).commands
    assert len(command.replacements) == 1
    assert lost_cpu(command, state) == 0
    assert command.approve_within is None


def test_a_waiting_or_refused_node_stays_and_says_why() -> None:
    state = drifted_cluster(1)
    (node,) = state.nodes
    waiting = replace(state, approvals=approvals_of({"n0": WAITING}))
    (hold,) = holds(node, waiting, Reason.DRIFTED)
    assert hold.why == (
        "its removal as drifted waits for approval since 2026-11-21T12:00:00Z: `tenon approve drifted-1`"
    )
    assert hold.until is None
    refused = replace(state, approvals=approvals_of({"n0": REFUSED}))
    (hold,) = holds(node, refused, Reason.DRIFTED)
    assert "because ann refused it: release in progress (command drifted-1)" in hold.why
    assert hold.until == REFUSED.until
    assert decided(refused).next_pass == REFUSED.until, "a pass begins when the refusal is over"
    for reason in (Reason.EMPTY, Reason.UNHEALTHY, Reason.EXPIRED):
        assert not [hold for hold in holds(node, waiting, reason) if "approval" in hold.blocker.name], reason


def test_budgets_and_other_commands_do_not_count_what_waits_or_was_refused() -> None:
    open_commands = {"a": WAITING, "b": REFUSED}
    assert claims_of(open_commands, postponed=False) == claims_of(open_commands, postponed=True) == frozenset()
    assert hosts_of(open_commands) == frozenset(), "the nodes that its pods would go to are free"
    assert awaiting_replacement(open_commands) == {}
    started = with_approved(
        open_commands, ApprovedReport(command="drifted-1", claims=["a"], moves_pods=True), NOW, NOW + timedelta(hours=1)
    )
    assert claims_of(started, postponed=False) == {"a"}
    assert hosts_of(started) == {"host"}
    assert started["a"].since == NOW


def test_a_waiting_command_is_stale_when_its_node_leaves_or_needs_it_no_more() -> None:
    state = drifted_cluster(2)
    ledger = {"n0": WAITING, "n1": evolve(WAITING, command="drifted-2")}
    later = NOW + timedelta(days=1)
    assert claims_of_finished_commands(ledger, state.nodes, later) == [], "it may wait for days"
    leaving = [replace(node, leaving=node.claim == "n0") for node in state.nodes]
    assert claims_of_finished_commands(ledger, leaving, later) == ["n0"]
    assert no_longer_wanted(ledger, state.nodes, {"n0": True, "n1": False}) == ["n1"]
    assert list(stale_commands(ledger, {"n0": WAITING})) == ["drifted-2"]
    ledger_after = {**ledger, "n0": evolve(WAITING, command="empty-1", reason="Empty", awaits_approval=False)}
    assert list(stale_commands(ledger, ledger_after)) == ["drifted-1"], "another command took its node"
    empties = {name: evolve(WAITING, command="e", reason="Empty") for name in ("a", "b")}
    assert stale_commands(empties, {"b": empties["b"]}) == {}, "the other node is still empty"
    assert list(stale_commands(empties, {})) == ["e"]


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
    pods = {claim: model.details[claim].pods for claim in nodes_of(command)}
    message = to_message(command, replacements=replacements, pods=pods)
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
        pods={"n0": state.model.details["n0"].pods},
        prices={"n0": 0.384},
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
    assert validation.instead.saving == pytest.approx(0.15 - 0.096)
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
    message = to_message(command, pods={"spare": state.model.details["spare"].pods})
    assert validated(message, state) == Validation()


def test_what_waits_is_counted_by_nodepool_and_reason() -> None:
    later = NOW + timedelta(hours=1)
    open_commands = {
        "a": evolve(WAITING, command="empty-1", reason="Empty"),
        "b": evolve(WAITING, command="empty-1", reason="Empty"),
        "c": evolve(WAITING, command="drifted-2", since=later),
        "d": WAITING,
        "e": REFUSED,
    }
    assert waiting_since(approvals_of(open_commands)) == {
        ("default", Reason.EMPTY): [NOW],
        ("default", Reason.DRIFTED): [later, NOW],
    }


def frozen(state: Situation) -> Situation:
    """The situation while a DisruptionFreeze holds."""
    freezes = (Freeze("release"),)
    return replace(state, policies={name: replace(policy, freezes=freezes) for name, policy in state.policies.items()})


def test_an_approved_command_waits_for_the_end_of_a_freeze() -> None:
    """Nobody should have to approve it twice. Whatever else keeps a node still ends the command."""
    state = drifted_cluster(2, approve="Drifted", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    pods = {claim: state.model.details[claim].pods for claim in nodes_of(command)} if state.model is not None else {}
    message = to_message(command, pods=pods)
    validation = validated(message, frozen(state))
    assert validation.is_full
    assert "is frozen by DisruptionFreeze release until it is deleted" in validation.why
    (claim,) = nodes_of(command)
    protected = [replace(node, protected_by="Node") if node.claim == claim else node for node in state.nodes]
    assert not validated(message, frozen(replace(state, nodes=protected))).is_full


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


@given(clusters())
def test_approvals_only_hold_back_and_never_go_beyond_the_limits(cluster: Cluster) -> None:
    """Whatever asks: at most ten commands of a NodePool wait, the others stay within budgets, and no node is in two."""
    asking_pools = {
        name: pool.model_copy(update={"approve": "Drifted, Underutilized, Empty"})
        for name, pool in cluster.pools.items()
    }
    state = situation(cluster.model_copy(update={"pools": asking_pools}))
    commands = decided(state).commands
    waiting = Counter(
        pool
        for command in commands
        if command.approve_within is not None
        for pool in {candidate.node.pool for candidate in command.candidates}
    )
    assert all(number <= MAX_WAITING for number in waiting.values())
    claims = [claim for command in commands for claim in nodes_of(command)]
    assert len(claims) == len(set(claims))
    assert all(
        command.approve_within is not None for command in commands if command.reason in (Reason.DRIFTED, Reason.EMPTY)
    )
    again = still_allowed(
        [to_message(command) for command in commands if command.moves_pods], replace(state, model=None)
    )
    assert {command.id for command in again} <= {to_message(command).id for command in commands}
    asked_approvals = {claim: AskedApproval("c", Reason.DRIFTED, "default", NOW) for claim in claims}
    free = {node.claim for node in eligible(replace(state, approvals=asked_approvals), Reason.DRIFTED)}
    assert free.isdisjoint(claims)


def asked(commands: Sequence[Command], number: int) -> dict[str, OpenCommand]:
    """Return commands as those that wait for a person."""
    return {
        claim: evolve(
            WAITING,
            command=f"c{number}-{place}",
            reason=command.reason.value,
            hosts=[] if position else sorted(command.destinations),
            awaits_replacement=False,
        )
        for place, command in enumerate(commands)
        for position, claim in enumerate(nodes_of(command))
    }


@pytest.mark.parametrize("cpu", ["300m", "500m", "700m", "900m"])
def test_consolidation_commands_that_wait_can_all_be_approved(cpu: str) -> None:
    """Each pass sees those that wait already. None of them moves pods to a node that another one removes."""
    nodes = {f"n{place}": NodeSpec(type="m5.large", pods=[PodSpec(cpu=cpu)]) for place in range(6)}
    cluster = Cluster(pools={"default": PoolSpec.model_validate({"approve": "Underutilized"})}, nodes=nodes)
    commands: list[Command] = []
    waiting: dict[str, OpenCommand] = {}
    for number in range(8):
        new_commands = decided(replace(situation(cluster), approvals=approvals_of(waiting))).commands
        commands += new_commands
        waiting |= asked(new_commands, number)
    assert commands, "something can be saved"
    removed = [claim for command in commands for claim in nodes_of(command)]
    assert len(removed) == len(set(removed))
    assert set(removed).isdisjoint(host for command in commands for host in command.destinations)
    assert findings(cluster, commands) == []


def keeping(entry: OpenCommand, asks: str) -> set[str]:
    """What keeps the host of a consolidation command, whose NodePool asks about these reasons."""
    pools = {"default": PoolSpec.model_validate({"approve": asks} if asks else {})}
    state = situation(Cluster(pools=pools, nodes={"host": NodeSpec(type="m5.large", pods=[PodSpec(cpu="500m")])}))
    (node,) = state.nodes
    after = replace(state, approvals=approvals_of({"another": evolve(entry, reason="Underutilized")}))
    return {hold.blocker.name for hold in holds(node, after, Reason.UNDERUTILIZED)}


def test_a_refused_consolidation_needs_no_room() -> None:
    asks = "Drifted, Underutilized"
    assert keeping(WAITING, asks) - keeping(REFUSED, asks) == {"destination of an approval"}


@pytest.mark.parametrize("asks", ["", "Drifted, Empty", "Underutilized above 3 nodes"])
def test_a_command_that_waits_keeps_no_host_of_a_nodepool_whose_own_might_pass(asks: str) -> None:
    assert "destination of an approval" not in keeping(WAITING, asks)


def mixed_cluster(*asks: str) -> Situation:
    """Three nodes that are too large, each of a NodePool of its own, whose pods fit on one new node together."""
    pools = {f"p{place}": PoolSpec.model_validate({"approve": text} if text else {}) for place, text in enumerate(asks)}
    nodes = {name: NodeSpec(pool=name, type="r5.4xlarge", pods=[SMALL]) for name in pools}
    return situation(Cluster(pools=pools, nodes=nodes))


def test_a_consolidation_waits_for_all_of_its_nodepools_or_for_none() -> None:
    """A NodePool that does not ask is not held up, although its pods and those of one that asks would share a node."""
    together = decided(mixed_cluster("", "", "")).commands
    assert [len(nodes_of(command)) for command in together] == [3]
    equal = decided(mixed_cluster(*["Underutilized"] * 3)).commands
    assert [len(nodes_of(command)) for command in equal] == [3]
    mixed = decided(mixed_cluster("", "Underutilized", "")).commands
    assert sorted(claim for command in mixed for claim in nodes_of(command)) == ["p0", "p2"]
    assert {command.approve_within for command in mixed} == {None}


def test_nodes_of_nodepools_that_ask_are_proposed_in_the_same_pass() -> None:
    """They are planned on what the commands that do not wait leave of the cluster."""
    pools = {"asks": PoolSpec(approve="Underutilized"), "free": PoolSpec()}
    alone = PodSpec(cpu="1", apart=True)
    nodes = {
        f"{pool}-{place}": NodeSpec(pool=pool, type="r5.4xlarge", pods=[alone]) for pool in pools for place in range(2)
    }
    waits: dict[bool, set[str]] = {False: set(), True: set()}
    for command in decided(situation(Cluster(pools=pools, nodes=nodes))).commands:
        waits[command.approve_within is not None] |= set(nodes_of(command))
    assert waits == {False: {"free-0", "free-1"}, True: {"asks-0", "asks-1"}}


@given(clusters(free=True), st.lists(st.sampled_from(["", "Underutilized", "Underutilized above 2 nodes"]), min_size=2))
def test_no_consolidation_has_nodes_of_nodepools_that_ask_differently(cluster: Cluster, asks: list[str]) -> None:
    pools = {
        name: pool.model_copy(update={"approve": text or None})
        for (name, pool), text in zip(cluster.pools.items(), asks, strict=False)
    }
    commands = decided(situation(cluster.model_copy(update={"pools": pools}))).commands
    for command in (command for command in commands if command.reason is Reason.UNDERUTILIZED):
        assert len({pools[candidate.node.pool].approve for candidate in command.candidates}) <= 1
    assert findings(cluster, commands) == []
