"""Waiting for empty nodes; the loop's clock jumps instead of passing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from activities.disruption import decision_metrics
from activities.disruption.disrupting import RECHECK_SECONDS
from tenon.apis import labels as names
from tenon.apis.duration import Duration
from tenon.apis.reasons import Reason
from tenon.disruption.decision import Candidate, Command, TerminateFirst
from tenon.disruption.pool_policy import policy_of
from tenon.messages.disruption import DisruptionDecision, OpenCommand
from tenon.messages.terminate_first import TerminateFirstReason
from tests.activities.disruption.disruption_setting import AFTER_A_MINUTE, QUESTION, Setting, managed
from tests.activities.provisioning.fake_view import START, node_pool

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


def claims(decision: DisruptionDecision) -> list[str]:
    return [candidate.claim for command in decision.commands for candidate in command.candidates]


async def test_dis30_a_node_is_found_at_the_end_of_its_time() -> None:
    """It leaves at once."""
    at = Setting(managed("a"))
    decision = await at.disruptor.await_candidates(QUESTION)
    assert at.seconds() == pytest.approx(60.0)
    (candidate,) = decision.commands[0].candidates
    assert candidate.since == START
    assert decision.commands[0].reason == "Empty"


async def test_nothing_to_do_ends_quietly() -> None:
    at = Setting(managed("busy", empty=False))
    assert await at.disruptor.await_candidates(QUESTION) == DisruptionDecision()
    assert at.seconds() == pytest.approx(600.0)


async def test_a_node_that_becomes_empty_is_found_when_its_time_comes() -> None:
    at = Setting(managed("a", empty=False))

    def empty() -> None:
        at.view.managed = [managed("a", quiet_since=START + timedelta(seconds=100))]
        at.view.publish()

    asyncio.get_running_loop().call_later(100.0, empty)
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["a"]
    assert at.seconds() == pytest.approx(160.0)


async def test_dis62_nodes_that_pods_move_to_stay_while_a_candidate_is_left() -> None:
    """`host` was free to leave once the first candidate was gone, although the pods of the second had yet to move."""
    at = Setting(managed("host"), managed("second", empty=False, disrupted_by="c1"))
    entry = OpenCommand(command="c1", reason="Drifted", pool="default", until=START + timedelta(hours=1), since=START)
    open_commands = {"first": entry.model_copy(update={"hosts": ["host"]}), "second": entry}
    changed_question = QUESTION.model_copy(update={"ledger": open_commands})
    assert claims(await at.disruptor.await_candidates(changed_question)) == []
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["host"]


async def test_dis46_dis53_what_changes_before_its_time_is_over_counts() -> None:
    """A closed budget window, a pod that came and went, do-not-disrupt, Never: all are judged when the node leaves."""
    at = Setting(managed("a"), budgets=[{"nodes": "0", "schedule": "1 12 * * *", "duration": "5m"}])
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["a"]
    assert at.seconds() == pytest.approx(360.0, abs=RECHECK_SECONDS + 1), "the window opens as the node is due"

    async def after_half_a_minute(change: Callable[[Setting], None]) -> list[str]:
        other = Setting(managed("a"))

        def happen() -> None:
            change(other)
            other.view.publish()

        asyncio.get_running_loop().call_later(30.0, happen)
        wait = QUESTION.model_copy(update={"wait_seconds": 80.0})
        return claims(await other.disruptor.await_candidates(wait))

    def used(setting: Setting) -> None:
        setting.view.managed = [managed("a", quiet_since=setting.now())]

    def protected(setting: Setting) -> None:
        setting.view.managed = [managed("a", protected_by="an annotation")]

    def never(setting: Setting) -> None:
        setting.view.pools = [node_pool(edits={AFTER_A_MINUTE: "Never"})]

    def nominated(setting: Setting) -> None:
        setting.nominated_nodes = {"a"}

    for change in (used, protected, never, nominated):
        assert await after_half_a_minute(change) == [], change.__name__
    assert await after_half_a_minute(lambda _: None) == ["a"]


async def test_budgets_bound_a_command_longest_empty_first() -> None:
    old = START - timedelta(hours=1)
    at = Setting(managed("b"), managed("a"), managed("z", quiet_since=old), budgets=[{"nodes": "2"}], after="0s")
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["z", "a"]


async def test_met32_eligible_nodes_are_counted_whatever_the_budgets_allow() -> None:
    """As in Karpenter, which counts before it applies budgets."""

    def measured() -> float | None:
        return REGISTRY.get_sample_value("karpenter_voluntary_disruption_eligible_nodes", {"reason": "empty"})

    nodes = [managed("a"), managed("b"), managed("c"), managed("busy", empty=False)]
    at = Setting(*nodes, budgets=[{"nodes": "1"}], after="0s")
    assert len(claims(await at.disruptor.await_candidates(QUESTION))) == 1
    assert measured() == 3
    at = Setting(*nodes, budgets=[{"nodes": "0"}], after="0s")
    assert claims(await at.disruptor.await_candidates(QUESTION)) == []
    assert measured() == 3
    at.view.managed = [managed("busy", empty=False)]
    await at.disruptor.await_candidates(QUESTION)
    assert measured() == 0


async def test_nodes_under_a_command_use_the_budget_up() -> None:
    """A second command while the first is under way must not add to it."""
    later = START + timedelta(hours=1)
    entry = OpenCommand(command="c1", reason="Empty", pool="default", until=later, due=later, since=START)
    at = Setting(managed("a"), managed("b"), budgets=[{"nodes": "1"}], after="0s")
    decision = await at.disruptor.await_candidates(QUESTION.model_copy(update={"ledger": {"a": entry}}))
    assert claims(decision) == []


async def test_n15_198_a_node_that_left_before_its_replacement_uses_the_budget_up_and_is_a_gauge() -> None:
    """Its command says when the replacement runs. Until then the list of open commands keeps the node."""

    def away() -> float | None:
        return REGISTRY.get_sample_value("tenon_nodepools_nodes_awaiting_replacement", {"nodepool": "default"})

    later = START + timedelta(hours=1)
    entry = OpenCommand(
        command="c1", reason="Drifted", pool="default", until=later, since=START, awaits_replacement=True
    )
    at = Setting(managed("b"), budgets=[{"nodes": "1"}], after="0s")
    decision = await at.disruptor.await_candidates(QUESTION.model_copy(update={"ledger": {"a": entry}}))
    assert (claims(decision), decision.finished_claims) == ([], [])
    assert away() == 1
    replaced = Setting(managed("b"), budgets=[{"nodes": "1"}], after="0s")
    assert claims(await replaced.disruptor.await_candidates(QUESTION)) == ["b"]
    assert away() == 0, "the replacement came while another replica led"


async def test_n15_200_n15_238_n15_521_a_node_that_leaves_first_is_counted_by_its_reason() -> None:
    def counted(name: str, **series: str) -> float:
        return REGISTRY.get_sample_value(f"karpenter_voluntary_disruption_{name}_total", series) or 0.0

    def counts() -> tuple[float, float]:
        series = {"decision": "terminate-first", "reason": "drifted", "consolidation_type": ""}
        why = {"nodepool": "default", "reason": "drifted", "terminate_first_reason": "static-at-limit"}
        return counted("decisions", **series), counted("terminate_first_decisions", **why)

    before = counts()
    first = TerminateFirst(TerminateFirstReason.STATIC_AT_LIMIT, ())
    nodes = (Candidate(managed("a", empty=False), since=START),)
    decision_metrics.count(Command("static drift", Reason.DRIFTED, "", nodes, moves_pods=True, terminate_first=first))
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1]


async def test_dis62_a_node_that_an_open_command_moves_pods_to_stays() -> None:
    """It may leave once the command is over, which the workflow learns with the next decision only."""
    entry = OpenCommand(command="c1", reason="Underutilized", pool="default", until=START, since=START, hosts=["a"])
    changed_question = QUESTION.model_copy(update={"ledger": {"old": entry}})
    at = Setting(managed("a"), managed("old", empty=False, leaving=True))

    def gone() -> None:
        at.view.managed = [managed("a")]
        at.view.publish()

    asyncio.get_running_loop().call_later(200.0, gone)
    assert claims(await at.disruptor.await_candidates(changed_question)) == ["a"]
    assert at.seconds() == pytest.approx(200.0, abs=2.0)


async def test_a_budget_that_reopens_by_its_schedule_is_noticed_without_any_change() -> None:
    """No event tells of 13:00: the wait looks again by itself."""
    at = Setting(managed("a"), after="0s", budgets=[{"nodes": "0", "schedule": "0 12 * * *", "duration": "5m"}])
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["a"]
    assert at.seconds() == pytest.approx(300.0, abs=RECHECK_SECONDS + 1)


async def test_an_unsynced_cache_disrupts_no_node() -> None:
    """Half a picture shows nodes without their pods."""
    at = Setting(managed("a"), after="0s")
    at.view.wait_complete = False

    def whole() -> None:
        at.view.wait_complete = True
        at.view.publish()

    asyncio.get_running_loop().call_later(5.0, whole)
    await at.disruptor.await_candidates(QUESTION)
    assert at.seconds() >= 5.0


async def test_the_same_finding_is_the_same_command() -> None:
    """A retry of a decision that was lost must not become a second command for the same nodes."""
    first = await Setting(managed("a"), managed("b"), after="0s").disruptor.await_candidates(QUESTION)
    again = await Setting(managed("b"), managed("a"), after="0s").disruptor.await_candidates(QUESTION)
    assert first.commands[0].id == again.commands[0].id
    other = Setting(managed("a", quiet_since=START - timedelta(seconds=1)), managed("b"), after="0s")
    assert (await other.disruptor.await_candidates(QUESTION)).commands[0].id != first.commands[0].id


async def test_consolidate_after_never_keeps_empty_nodes() -> None:
    at = Setting(managed("a", quiet_since=START - timedelta(days=30)), after="Never")
    assert await at.disruptor.await_candidates(QUESTION) == DisruptionDecision()


async def test_a_policy_says_what_its_pool_says() -> None:
    text = policy_of(
        node_pool(
            edits={
                AFTER_A_MINUTE: "1h30m",
                "disruption/budgets": [
                    {"nodes": "20%", "reasons": ["Empty"], "schedule": "@daily", "duration": "8h"},
                    {"nodes": "5"},
                ],
            }
        )
    )
    assert text.consolidate_after == timedelta(minutes=90)
    first, second = text.budgets
    assert (first.nodes, first.reasons, first.schedule) == ("20%", ["Empty"], "@daily")
    assert first.duration == Duration("8h")
    assert (second.reasons, second.schedule, second.duration) == (None, None, None)


async def test_a_node_that_pods_are_on_their_way_to_is_not_empty() -> None:
    """DIS-10: whether the plan knew it by its NodeClaim or by its Node."""
    at = Setting(managed("starting"), managed("there", node="node-1"), managed("alone", node="node-2"))
    at.nominated_nodes = {"starting", "node-1"}
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["alone"]
    at.nominated_nodes.clear()
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["alone", "starting", "there"]


def budget_gauges(pool: str, reason: str) -> tuple[float | None, float | None]:
    """(allowed, consuming) of a NodePool."""
    labels = {"nodepool": pool, "reason": reason}
    names = ("allowed_disruptions", "nodes_consuming_budgets")
    allowed, consuming = (REGISTRY.get_sample_value(f"karpenter_nodepools_{name}", labels) for name in names)
    return allowed, consuming


async def test_met21_a_pools_budgets_and_what_uses_them_up_are_gauges() -> None:
    nodes = [managed(name, empty=False) for name in "abcdefghij"]
    nodes += [managed("starting", initialized=False), managed("ended", leaving=True, terminating=True)]
    nodes[0], nodes[1] = managed("a", empty=False, ready=False), managed("b", empty=False, leaving=True)
    at = Setting(*nodes, budgets=[{"nodes": "45%"}, {"nodes": "0", "reasons": ["Drifted"]}])
    await at.disruptor.await_candidates(QUESTION)
    assert budget_gauges("default", "underutilized") == (5, 2)
    assert budget_gauges("default", "drifted") == (0, 2)
    at.view.pools = [node_pool("other")]
    await at.disruptor.await_candidates(QUESTION)
    assert budget_gauges("default", "underutilized") == (0, 0), "the pool is gone"
    assert budget_gauges("other", "empty") == (0, 0)


async def test_met21_a_nodepool_that_went_while_another_replica_led_allows_nothing() -> None:
    await Setting(managed("a", empty=False), budgets=[{"nodes": "7"}]).disruptor.await_candidates(QUESTION)
    assert budget_gauges("default", "drifted") == (7, 0)
    again = Setting()
    again.view.pools = []
    await again.disruptor.await_candidates(QUESTION)
    assert budget_gauges("default", "drifted") == (0, 0)


async def test_met21_budgets_are_reported_every_30_seconds_however_often_nodes_change() -> None:
    at = Setting(managed("a", empty=False), after="0s", budgets=[{"nodes": "7"}])
    observations = []

    def change() -> None:
        observations.append(budget_gauges("default", "empty")[1])
        at.view.managed = [managed("a", empty=False, ready=False)]
        at.view.publish()

    for second in (5.0, 29.0, 65.0):
        asyncio.get_running_loop().call_later(second, change)
    await at.disruptor.await_candidates(QUESTION)
    assert observations == [0, 0, 1]


async def test_dis55_evt01_a_nodepool_that_allows_no_disruption_says_so() -> None:
    budgets: list[dict[str, Any]] = [{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "1"}]
    at = Setting(managed("a", ready=False), after="60s", budgets=budgets)
    at.view.pools.append(node_pool("without-nodes", edits={"disruption/budgets": [{"nodes": "0"}]}))
    await at.disruptor.await_candidates(QUESTION)
    text = "No allowed disruptions for disruption reason Drifted due to blocking budget"
    assert set(at.recorder.events) == {("NodePool", "default", "DisruptionBlocked", text)}


async def test_met30_met31_a_decision_is_counted_once_for_each_nodepool() -> None:
    def counted(name: str, **labels: str) -> float:
        labels |= {"decision": "delete", "reason": "empty", "consolidation_type": "empty"}
        return REGISTRY.get_sample_value(f"karpenter_voluntary_disruption_{name}_total", labels) or 0.0

    def counts() -> list[float]:
        pools = [counted("decisions_by_nodepool", nodepool=pool) for pool in ("default", "other")]
        return [counted("decisions"), *pools]

    before = counts()
    at = Setting(managed("a"), managed("b"), managed("c", pool="other"), after="0s")
    at.view.pools.append(node_pool("other", edits={AFTER_A_MINUTE: "0s", "disruption/budgets": [{"nodes": "100%"}]}))
    assert claims(await at.disruptor.await_candidates(QUESTION)) == ["a", "b", "c"]
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 1]


async def test_met29_each_method_is_timed() -> None:
    def evaluations() -> float:
        name = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count"
        return REGISTRY.get_sample_value(name, {"reason": "empty", "consolidation_type": "empty"}) or 0.0

    before = evaluations()
    await Setting(managed("a"), after="0s").disruptor.await_candidates(QUESTION)
    assert evaluations() == before + 1


async def test_wsh14_the_event_on_the_nodepool_says_when_the_next_window_opens() -> None:
    at = Setting(managed("a"), after="0s")
    text = json.dumps([{"schedule": "0 2 29 2 *", "duration": "1h", "timezone": "Europe/Berlin", "reasons": ["Empty"]}])
    at.view.pools = [
        node_pool(annotations={names.DISRUPTION_WINDOWS: text}, edits={"disruption/consolidateAfter": "0s"})
    ]
    answer = await at.disruptor.await_candidates(QUESTION)
    assert answer.commands == []
    assert {event[2:4] for event in at.recorder.events} == {
        (
            "DisruptionBlocked",
            "No allowed disruptions for disruption reason Empty: the NodePool is outside its disruption windows, the "
            "next opens on Tue 2028-02-29 at 02:00 Europe/Berlin",
        )
    }


async def test_wsh28_expired_nodes_leave_within_budgets_where_the_nodepool_asks() -> None:
    """Each decision has an ID of its own: a node that refused the first must not repeat its answer to the next."""
    expired = START - timedelta(hours=1)
    at = Setting(managed("a", empty=False, expires_at=expired), managed("b", empty=False, expires_at=expired))
    assert claims(await at.disruptor.await_candidates(QUESTION)) == []
    annotations = {names.EXPIRE_WITHIN_BUDGETS: "true"}
    at.view.pools = [node_pool(annotations=annotations, edits={"disruption/budgets": [{"nodes": "1"}]})]
    first = await at.disruptor.await_candidates(QUESTION)
    assert claims(first) == ["a"]
    (command,) = first.commands
    assert (command.reason, command.only_if_empty, command.moves_pods) == ("expired", False, False)
    at.view.pools = [node_pool(annotations=annotations, edits={"disruption/budgets": [{"nodes": "0"}]})]
    assert claims(await at.disruptor.await_candidates(QUESTION)) == []
    assert "No allowed disruptions for disruption reason Expired due to blocking budget" in {
        event[3] for event in at.recorder.events
    }
    at.view.pools = [node_pool(annotations=annotations, edits={"disruption/budgets": [{"nodes": "1"}]})]
    (again,) = (await at.disruptor.await_candidates(QUESTION)).commands
    assert [candidate.claim for candidate in again.candidates] == ["a"]
    assert again.id != command.id
