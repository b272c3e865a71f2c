"""When a round of passes may begin although nodes are about to become due: not in the middle of a load that falls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.consolidatable import settles_at
from tests.activities.disruption.disruption_setting import managed
from tests.tenon.disruption.clusters import NOW

STEP = timedelta(seconds=10)
AFTER = timedelta(seconds=30)
DEFAULT = {"default": PoolPolicy("default", AFTER)}


def settled(
    *due_in: float, policies: Mapping[str, PoolPolicy] = DEFAULT, of_first: Mapping[str, object] | None = None
) -> float:
    """In how many seconds all have become due that follow each other; ``of_first`` says more of the first node."""
    nodes: list[ManagedNode] = [managed(f"n{number}", empty=False) for number in range(len(due_in))]
    nodes[:1] = [replace(node, **(of_first or {})) for node in nodes[:1]]  # type: ignore[arg-type]
    quiet_since = {node.claim: NOW + timedelta(seconds=due) - AFTER for node, due in zip(nodes, due_in, strict=True)}
    return (settles_at(nodes, policies, quiet_since, NOW, STEP) - NOW).total_seconds()


@pytest.mark.parametrize(
    ("due_in", "seconds"),
    [
        ([], 0),
        ([-60, 0], 0),
        ([5], 5),
        ([-60, 3, 8, 17, 27], 27),
        ([27, 3, 17, 8], 27),
        ([10], 10),
        ([11], 0),
        ([4, 15], 4),
        ([4, 40], 4),
    ],
)
def test_wsh01_a_round_waits_for_nodes_that_become_due_one_after_another(due_in: list[float], seconds: float) -> None:
    assert settled(*due_in) == seconds


def test_wsh01_nodes_that_never_become_due_or_leave_are_not_waited_for() -> None:
    assert settled(5, of_first={"leaving": True}) == 0
    assert settled(5, of_first={"pool": "gone"}) == 0
    assert settled(5, policies={"default": PoolPolicy("default", None)}) == 0


def test_wsh01_an_empty_node_is_waited_for() -> None:
    """It leaves by itself. Before that, kube-scheduler would put pods there that a command evicts."""
    assert settled(5, of_first={"empty": True}) == 5
