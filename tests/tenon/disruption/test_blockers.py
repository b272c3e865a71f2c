"""The table of what keeps a node: every reader reads it, so that a new blocker is added in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tenon.apis.reasons import EVERY_BUDGETED, Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.deciding import decide, eligible, why_nodes_stay
from tenon.disruption.decision import DisruptionBlocked
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pass_facts import pass_facts
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules import blockers
from tenon.disruption.rules.blockers import BLOCKERS, DISRUPTIONS, VOLUNTARY, Blocker, applying, holds, is_free
from tenon.disruption.rules.consolidatable import is_over, over_at, takes_pods
from tenon.disruption.situation import Situation
from tenon.disruption.validation import still_allowed, validated
from tenon.disruption.why_stays import WhyStays
from tenon.kube.protection import node_protection
from tenon.messages.base import ClaimRef
from tenon.messages.disruption import DisruptionCommand
from tenon.messages.node import Disrupt
from tenon.node.disruption_requests import answer
from tenon.node.state import NodeState, Stage
from tenon.scheduling.deadline import never
from tests.tenon.disruption.clusters import NOW, Cluster, situation

AFTER = timedelta(seconds=30)
POLICY = PoolPolicy("default", AFTER)
QUIET = {name: NOW - timedelta(hours=1) for name in ("spare", "host", "empty")}


def cluster(**spare: object) -> Situation:
    """The pod of the spare node fits on the other node, and an empty node leaves."""
    small = {"type": "m5.large", "pods": [{"cpu": "100m", "memory": "128Mi"}]}
    nodes = {
        "spare": {**small, **spare},
        "host": {"type": "m5.large", "pods": [{"cpu": "900m", "memory": "2Gi"}], "protected": True},
        "empty": {"type": "m5.large"},
    }
    return situation(Cluster.model_validate({"nodes": nodes}))


def commands(state: Situation) -> Mapping[str, DisruptionCommand]:
    """The message of the command for each node."""
    assert state.model is not None
    details = state.model.details
    return {
        candidate.node.claim: to_message(command, ident="c", details=details)
        for command in decide(state, (*METHODS, *moving_methods(never))).commands
        for candidate in command.candidates
    }


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> Blocker:
    """A new blocker, added to the table only."""
    added = Blocker("market", DISRUPTIONS, lambda _node, _situation: True, "the market is open", reported=True)
    monkeypatch.setattr(blockers, "_APPLYING", applying((*BLOCKERS, added)))
    return added


def unread(node: ManagedNode, _: Situation) -> str:
    raise AssertionError(f"nobody reads why {node.claim} stays")


@pytest.mark.parametrize("drifted", ["", "AMIDrift"])
def test_whether_a_node_is_free_is_asked_without_a_sentence(drifted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence for each of thousands of nodes would cost the event loop time."""
    state = cluster(drifted=drifted)
    reason = Reason.DRIFTED if drifted else Reason.UNDERUTILIZED
    before = commands(state)
    added = Blocker("market", DISRUPTIONS, lambda _node, _situation: True, unread)
    monkeypatch.setattr(blockers, "_APPLYING", applying((*BLOCKERS, added)))
    assert not any(is_free(node, state, reason) for node in state.nodes)
    assert eligible(state, reason) == []
    assert still_allowed([before["spare"]], state) == []
    facts = replace(state, model=None, quiet_since=QUIET)
    assert not pass_facts(facts, {}, {}, 0).nodes["spare"].reasons
    (empty,) = (node for node in state.nodes if node.empty)
    decision = decide(replace(state, nodes=[empty], model=None))
    assert (decision.failed, decision.commands, why_nodes_stay(replace(state, nodes=[empty]))) == ({}, (), {})


def test_dis30_when_an_empty_node_is_due_is_asked_without_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blockers, "_APPLYING", applying([replace(blocker, why=unread) for blocker in BLOCKERS]))
    state = cluster()
    nodes = [replace(node, quiet_since=NOW) for node in state.nodes if node.empty]
    policies = {"default": replace(state.policies["default"], consolidate_after=AFTER)}
    decision = decide(replace(state, nodes=nodes, policies=policies, model=None))
    assert (decision.failed, decision.commands, decision.next_pass) == ({}, (), NOW + AFTER)


@pytest.mark.parametrize("drifted", ["", "AMIDrift"])
def test_a_new_blocker_is_known_to_every_reader(drifted: str, request: pytest.FixtureRequest) -> None:
    state = cluster(drifted=drifted)
    reason = Reason.DRIFTED if drifted else Reason.UNDERUTILIZED
    before = commands(state)
    assert before.keys() == {"spare", "empty"}
    assert before["spare"].reason == reason
    assert validated(before["spare"], state).why == ""
    facts = replace(state, model=None, quiet_since=QUIET)
    assert reason in pass_facts(facts, {}, {}, 0).nodes["spare"].reasons
    request.getfixturevalue("forbidden")
    assert commands(state) == {}
    assert eligible(state, reason) == []
    assert validated(before["spare"], state).why == "NodeClaim spare: the market is open"
    assert still_allowed([before["spare"]], state) == []
    assert not pass_facts(facts, {}, {}, 0).nodes["spare"].reasons
    assert why_nodes_stay(replace(state, model=None))["empty"] == "Disruption is blocked: the market is open"
    decision = decide(state, moving_methods(never))
    cause = DisruptionBlocked(f"its node drifted ({drifted})", "the market is open")
    assert decision.blocked.get("spare") == (cause if drifted else None)
    (spare,) = (node for node in state.nodes if node.claim == "spare")
    assert WhyStays(state).sentences(spare) == ("The market is open",)


def test_every_blocker_has_a_name_of_its_own_and_a_reason_that_a_method_has() -> None:
    assert len({blocker.name for blocker in BLOCKERS}) == len(BLOCKERS)
    assert all(blocker.reasons & set(EVERY_BUDGETED) for blocker in BLOCKERS)


@pytest.mark.parametrize("reason", sorted(VOLUNTARY))
def test_dis10_dis11_what_excludes_a_node_excludes_it_for_every_disruption(reason: Reason) -> None:
    (spare,) = (node for node in cluster().nodes if node.claim == "spare")
    for changed, why in (
        ({"leaving": True}, "it is already leaving"),
        ({"initialized": False}, "its NodeClaim is not initialized"),
        ({"disrupted_by": "c-1"}, "disruption command c-1 is about to remove it"),
        ({"protected_by": "an annotation"}, "an annotation protects it"),
        ({"replacement_for": "c-1"}, "it was created for disruption command c-1, which has not ended"),
    ):
        assert [hold.why for hold in holds(replace(spare, **changed), cluster(), reason)] == [why]


@pytest.mark.parametrize(("grace_period", "free"), [(False, False), (True, True)])
def test_dis14_only_drift_passes_a_protected_pod_and_only_with_a_grace_period(grace_period: bool, free: bool) -> None:
    state = cluster(
        held_by="pod default/a: annotation karpenter.sh/do-not-disrupt protects it", grace_period=grace_period
    )
    (spare,) = (node for node in state.nodes if node.claim == "spare")
    assert is_free(spare, state, Reason.DRIFTED) is free
    assert not is_free(spare, state, Reason.UNDERUTILIZED)


@pytest.mark.parametrize(
    ("now", "over"),
    [(NOW - timedelta(microseconds=1), False), (NOW, True), (NOW + timedelta(microseconds=1), True)],
    ids=["before", "at-the-instant", "after"],
)
def test_dis30_dis31_consolidate_after_is_over_at_the_instant_at_which_it_ends(now: datetime, over: bool) -> None:
    """Karpenter: the node is consolidatable unless the time since the last pod event is less than consolidateAfter."""
    since = NOW - AFTER
    assert over_at(POLICY, since) == NOW
    assert is_over(POLICY, since, now) is over
    assert takes_pods(POLICY, since, now) is over
    state = cluster()
    policies = {"default": replace(state.policies["default"], consolidate_after=AFTER)}
    assert state.model is not None
    details = {name: replace(detail, quiet_since=since) for name, detail in state.model.details.items()}
    nodes = [replace(node, quiet_since=since if node.empty else None) for node in state.nodes]
    model = replace(state.model, details=details)
    later = replace(state, nodes=nodes, policies=policies, now=now, model=model)
    for reason, name in ((Reason.UNDERUTILIZED, "spare"), (Reason.EMPTY, "empty")):
        assert (name in {node.claim for node in eligible(later, reason)}) is over
    facts = pass_facts(replace(later, model=None, quiet_since=dict.fromkeys(QUIET, since)), {}, {}, 0)
    assert (Reason.UNDERUTILIZED in getattr(facts.nodes.get("spare"), "reasons", ())) is over


@pytest.mark.parametrize(
    ("policy", "since", "takes"),
    [
        (PoolPolicy("default", None), None, True),
        (None, None, True),
        (POLICY, None, False),
        (replace(POLICY, takes_pods_early=True), NOW, True),
        (replace(POLICY, takes_pods_early=True), None, True),
    ],
    ids=["never-consolidates", "unknown-pool", "no-pod-event-known", "opened", "opened-no-pod-event-known"],
)
def test_dis31_which_nodes_take_pods_whatever_the_time(policy: PoolPolicy, since: datetime | None, takes: bool) -> None:
    assert takes_pods(policy, since, NOW) is takes


@pytest.mark.parametrize(
    ("stage", "kept_for", "accepted"),
    [
        (Stage.LIVE, None, True),
        (Stage.INITIALIZING, None, False),
        (Stage.CORDONING, None, False),
        (Stage.LIVE, timedelta(0), True),
        (Stage.LIVE, timedelta(microseconds=1), False),
    ],
    ids=["live", "not-initialized", "leaving", "kept-until-now", "kept"],
)
def test_a_nodes_workflow_refuses_what_the_table_keeps(
    stage: Stage, kept_for: timedelta | None, accepted: bool
) -> None:
    """The workflow has the last word, about its own state only: it knows of a request to keep the node first."""
    keep_until = None if kept_for is None else NOW + kept_for
    workflow = NodeState(claim=ClaimRef(cluster="c", name="spare", uid="u"), stage=stage, keep_until=keep_until)
    assert answer(workflow, Disrupt(command="c", reason="Empty"), NOW).accepted is accepted
    (spare,) = (node for node in cluster().nodes if node.claim == "spare")
    node = replace(
        spare,
        initialized=stage is not Stage.INITIALIZING,
        leaving=stage.leaving,
        protected_by=node_protection({}, {}, keep_until, NOW),
    )
    assert is_free(node, cluster(), Reason.DRIFTED) is accepted
