"""When a disruption command's hold on a node is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.disruption.ledger import GRACE_PERIOD, finished_commands
from tenon.disruption.model import ManagedNode
from tenon.lifecycle.messages.disruption import LedgerEntry

DUE = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NODE = ManagedNode("a", "u", "default", True, True, False, True, False, DUE)
LEAVING = ManagedNode("a", "u", "default", True, True, True, True, False, DUE)
LEDGER = {"a": LedgerEntry(command="c1", reason="Empty", pool="default", until=DUE + timedelta(minutes=10), due=DUE)}


@pytest.mark.parametrize(
    ("nodes", "after", "expected"),
    [
        ([NODE], timedelta(), []),
        ([NODE], GRACE_PERIOD + timedelta(seconds=1), ["a"]),
        ([LEAVING], timedelta(minutes=5), []),
        ([], timedelta(), ["a"]),
    ],
)
def test_a_node_that_stayed_or_is_gone_frees_its_budget(
    nodes: list[ManagedNode], after: timedelta, expected: list[str]
) -> None:
    """DIS-52: a withdrawal must not hold the budget for minutes."""
    assert finished_commands(LEDGER, nodes, DUE + after) == expected
