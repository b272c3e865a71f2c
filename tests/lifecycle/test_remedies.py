"""What a blocked node's operator is told to do: every name that the sentences hold comes back in a command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.lifecycle import drain, pdbs
from tenon.lifecycle.messages.base import ClaimRef
from tenon.lifecycle.remedies import deadlines, remedies, report
from tenon.lifecycle.state import Leave, NodeState, Stage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = ClaimRef(cluster="c", name="web-1", uid="u")


def blocked(stage: Stage, *sentences: str, **fields: Any) -> NodeState:
    return NodeState(claim=REF, stage=stage, node_name="node-1", blocked="; ".join(sentences), **fields)


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}, **metadata},
        "spec": {},
        "status": {"phase": "Running"},
    }


def budget(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }


def test_every_holder_of_a_drain_gets_its_command() -> None:
    """TRM-05: budgets, protections and finalizers, from the very sentences that a drain writes."""
    protected = pod("p", annotations={"karpenter.sh/do-not-disrupt": "true"})
    unevictable = pod("e", annotations={"karpenter.sh/do-not-evict": "true"})
    held = pod("f", deletionTimestamp="2026-03-01T11:59:40Z", finalizers=["example.com/x"])
    state = blocked(
        Stage.DRAINING,
        f"pod default/a {pdbs.explain(pod('a'), [budget('one')], by_pdb=True, answer='')}",
        f"pod default/b {pdbs.explain(pod('b'), [budget('one'), budget('two')], by_pdb=True, answer='')}",
        drain.decide(protected, NOW, turn=True, force_at=NOW + timedelta(hours=1), force=False).why,
        drain.decide(unevictable, NOW, turn=True, force_at=None, force=False).why,
        drain.decide(held, NOW, turn=True, force_at=None, force=False).why,
    )
    assert remedies(state) == [
        "relax PodDisruptionBudget default/one: `kubectl edit poddisruptionbudget -n default one`",
        "relax PodDisruptionBudget default/two: `kubectl edit poddisruptionbudget -n default two`",
        "give pod default/p free: `kubectl annotate pod -n default p karpenter.sh/do-not-disrupt-`",
        "give pod default/e free: `kubectl annotate pod -n default e karpenter.sh/do-not-evict-`",
        'let pod default/f go: `kubectl patch pod -n default f --type=merge -p \'{"metadata":{"finalizers":null}}\'`',
        "`tenon node force-drain web-1` deletes the pods at once, whatever protects them",
    ]


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
def test_a_block_in_any_stage_has_a_way_out(stage: Stage) -> None:
    assert any("`" in remedy for remedy in remedies(blocked(stage, "something")))
    assert remedies(blocked(stage)) == []


def test_what_happens_by_itself_is_told_with_its_instant() -> None:
    """TRM-06, LIF-05: the end of the grace period, the time to join, the next try."""
    leave = Leave(reason="expired", asked_at=NOW)
    draining = blocked(
        Stage.DRAINING,
        "x",
        leave=leave,
        force_at=NOW + timedelta(hours=48),
        deadline=NOW + timedelta(minutes=5),
    )
    assert [what.split()[0] for what, _ in deadlines(draining)] == ["Tried", "All"]
    assert "whatever protects them, by 2026-03-03T12:00:00Z" in report(draining)
    forced = draining.model_copy(update={"leave": leave.model_copy(update={"force": True}), "deadline": None})
    assert deadlines(forced) == []
    joining = blocked(Stage.REGISTERING, deadline=NOW)
    assert "Given up, unless a Node has joined, at 2026-03-01T12:00:00Z" in report(joining)
    starting = blocked(Stage.INITIALIZING, registered_at=NOW, initialization_timeout_seconds=1800.0)
    assert "Given up, unless initialized, at 2026-03-01T12:30:00Z" in report(starting)
    assert report(NodeState(claim=REF, stage=Stage.LIVE)) == ""
