"""Commands that wait for approval, as the planner sees them; the loop's clock jumps instead of passing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from tenon.apis import labels
from tenon.evolve import evolve
from tenon.messages.disruption import DisruptionCommand, DisruptionDecision, OpenCommand
from tests.activities.disruption.disruption_setting import QUESTION, Setting, managed
from tests.activities.provisioning.fake_view import START, node_pool

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


def asking(*names: str, budget: str = "1") -> Setting:
    """Empty nodes of a NodePool that asks about empty nodes."""
    at = Setting(*map(managed, names))
    edits = {"disruption/consolidateAfter": "0s", "disruption/budgets": [{"nodes": budget}]}
    at.view.pools = [node_pool(edits=edits, annotations={labels.APPROVE: "Empty", labels.APPROVE_WITHIN: "2h"})]
    return at


def opened(command: DisruptionCommand) -> dict[str, OpenCommand]:
    """What the workflow lists of a command that waits."""
    return {
        candidate.claim: OpenCommand(
            command=command.id,
            reason=command.reason,
            pool=candidate.pool,
            until=START + timedelta(days=2),
            since=START,
            awaits_approval=command.approval is not None,
        )
        for candidate in command.candidates
    }


async def test_two_commands_wait_and_only_one_of_them_gets_the_place_in_the_budget() -> None:
    """Both are approved at once, before the workflow has reported either."""
    at = asking("a", "b")
    (first,) = (await at.disruptor.await_candidates(QUESTION)).commands
    assert first.approval is not None
    assert first.approval.seconds == 7200
    ledger = opened(first)
    (second,) = (await at.disruptor.await_candidates(evolve(QUESTION, ledger=ledger))).commands
    ledger |= opened(second)
    assert len(ledger) == 2, "the budget is one, and a waiting node does not use it"
    assert await at.disruptor.await_candidates(evolve(QUESTION, ledger=ledger)) == DisruptionDecision()
    steps = await asyncio.gather(at.disruptor.validate(first), at.disruptor.validate(second))
    assert [(step.failure, step.waits) for step in steps] == [
        ("", ""),
        ("", "the budgets of NodePool default do not allow it any more"),
    ]
    at.view.managed = [managed("a"), managed("b"), managed("c")]
    question = evolve(QUESTION, ledger={**ledger, **opened(second)})
    assert await at.disruptor.await_candidates(question) == DisruptionDecision(), (
        "the workflow's list does not know yet that one was approved, and the planner does"
    )


async def test_whoever_looks_at_the_objects_hears_once_that_a_command_waits_and_how_to_approve_it() -> None:
    at = asking("a")
    (command,) = (await at.disruptor.await_candidates(QUESTION)).commands
    for _ in range(2):
        await at.disruptor.await_candidates(evolve(QUESTION, ledger=opened(command)))
    events = [event for event in at.recorder.events if event[2] == "DisruptionAwaitsApproval"]
    assert [event[:2] for event in events] == [("NodeClaim", "a"), ("NodePool", "default")]
    assert all("waits for approval" in event[3] and f"`tenon approve {command.id}`" in event[3] for event in events)


@pytest.mark.parametrize("change", ["gone", "used", "leaving"])
async def test_a_wait_that_nothing_asks_for_any_more_is_reported_at_once(change: str) -> None:
    at = asking("a")
    (command,) = (await at.disruptor.await_candidates(QUESTION)).commands
    changed = {"gone": [], "used": [managed("a", empty=False)], "leaving": [managed("a", leaving=True)]}[change]

    def happen() -> None:
        at.view.managed = list(changed)
        at.view.publish()

    asyncio.get_running_loop().call_later(30.0, happen)
    decision = await at.disruptor.await_candidates(evolve(QUESTION, ledger=opened(command)))
    assert decision.finished_claims == ["a"]
    assert at.seconds() < 60


async def test_a_refused_node_is_asked_about_again_when_its_time_is_over() -> None:
    at = asking("a")
    (command,) = (await at.disruptor.await_candidates(QUESTION)).commands
    until = at.now() + timedelta(minutes=5)
    entry = evolve(
        opened(command)["a"], awaits_approval=False, postponed=True, refused="ann refused it", until=until, due=until
    )
    (again,) = (await at.disruptor.await_candidates(evolve(QUESTION, ledger={"a": entry}))).commands
    assert again.candidates[0].claim == "a"
    assert 300 <= at.seconds() <= 340


def waiting(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"tenon_disruption_approvals_{name}", {"nodepool": "default", "reason": "empty"})


async def test_the_gauges_say_how_many_commands_wait_and_for_how_long() -> None:
    at = asking("a")
    (command,) = (await at.disruptor.await_candidates(QUESTION)).commands
    ledger = opened(command)
    await at.disruptor.await_candidates(evolve(QUESTION, ledger=ledger))
    assert waiting("waiting") == 1
    assert (waiting("longest_wait_seconds") or 0) > 500
    refused = evolve(ledger["a"], awaits_approval=False, postponed=True, refused="ann refused it")
    await at.disruptor.await_candidates(evolve(QUESTION, ledger={"a": refused}))
    assert (waiting("waiting"), waiting("longest_wait_seconds")) == (0, 0)


async def test_a_command_that_was_approved_while_another_replica_led_waits_no_longer() -> None:
    at = asking("a")
    (command,) = (await at.disruptor.await_candidates(QUESTION)).commands
    await at.disruptor.await_candidates(evolve(QUESTION, ledger=opened(command)))
    assert waiting("waiting") == 1
    await asking().disruptor.await_candidates(QUESTION)
    assert (waiting("waiting"), waiting("longest_wait_seconds")) == (0, 0)
