"""The messages of the disruption workflow stay far below Temporal's limit of 2 MB, however large the cluster is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.search.size_limits import MAX_BYTES, MAX_NODES, MAX_OPEN, how_many_fit
from tenon.disruption.situation import Situation
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCandidate,
    DisruptionCommand,
    DisruptionDecision,
    OpenCommand,
    Replacement,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
TTL = timedelta(seconds=30)
LIMIT = 1_000_000
"""Bytes: half of what Temporal takes."""
NODE = ManagedNode("", "", "general-purpose", True, True, False, True, NOW - TTL)


@pytest.mark.parametrize("reason", [Reason.EMPTY, Reason.EXPIRED])
def test_9000_nodes_leave_in_messages_that_temporal_takes(reason: Reason) -> None:
    """DIS-30: as many as one command may hold, the rest with the next decisions, as soon as the first are gone."""
    expires = NOW if reason is Reason.EXPIRED else None
    uid = "2f1cbd4e-6ad5-4f4f-9d10-3f5c7b1e{:04x}"
    nodes = {
        f"general-purpose-{number:05d}": replace(
            NODE,
            claim=f"general-purpose-{number:05d}",
            uid=uid.format(number),
            expires_at=expires,
            empty=expires is None,
        )
        for number in range(9000)
    }
    policy = PoolPolicy("general-purpose", TTL, (Budget(nodes="100%"),), expire_within_budgets=expires is not None)
    ledger: dict[str, OpenCommand] = {}
    remainder, largest = set(nodes), 0
    while remainder:
        present = [node for claim, node in nodes.items() if claim in remainder or claim in ledger]
        situation = Situation(present, {"general-purpose": policy}, NOW, frozenset(ledger))
        commands = [to_message(command) for command in decide(situation).commands]
        if not commands:
            assert len(ledger) >= MAX_OPEN, "only the list of open commands ends the choice"
            ledger.clear()  # these nodes are gone
            continue
        assert {command.reason for command in commands} == {reason}
        assert all(len(command.candidates) <= MAX_NODES for command in commands)
        for command in commands:
            for candidate in command.candidates:
                remainder.discard(candidate.claim)
                ledger[candidate.claim] = OpenCommand(
                    command=command.id, reason=command.reason, pool=candidate.pool, until=NOW, due=NOW, since=NOW
                )
        for message in (
            DisruptionDecision(commands=commands),
            AwaitDisruptionInput(cluster="production", ledger=ledger),
            *(DisruptInput(cluster="production", command=command) for command in commands),
        ):
            largest = max(largest, len(message.model_dump_json().encode()))
    assert largest < LIMIT


def moving(number: int, replacements: int, size: int) -> DisruptionCommand:
    """A command whose replacements have NodeClaims of so many bytes."""
    candidate = DisruptionCandidate(claim=f"c{number}", uid=f"u{number}", pool="general-purpose", since=NOW)
    body = {"metadata": {"annotations": {"tenon.sh/why": "x" * size}}}
    return DisruptionCommand(
        id=f"drifted-{number}",
        reason="Drifted",
        candidates=[candidate],
        moves_pods=True,
        replacements=[Replacement(name=f"n{item}", pool="general-purpose", body=body) for item in range(replacements)],
    )


def test_50_moves_with_25_large_nodeclaims_each_are_several_decisions() -> None:
    commands, decisions = [moving(number, 25, 10_000) for number in range(50)], []
    while commands:
        decisions.append(commands[: how_many_fit(commands)])
        commands = commands[len(decisions[-1]) :]
    assert sum(map(len, decisions)) == 50
    assert max(len(DisruptionDecision(commands=commands).model_dump_json().encode()) for commands in decisions) < LIMIT


def test_a_command_that_is_larger_than_the_limit_goes_alone() -> None:
    large, small = moving(1, 1, MAX_BYTES), moving(2, 1, 10)
    assert [how_many_fit(commands) for commands in ([large, small], [small, large], [small, small], [])] == [1, 1, 2, 0]
