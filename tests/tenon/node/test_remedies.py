"""What a blocked node's operator is told to do: every name that the state holds comes back in a command."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.kube.pod_decode import pod_of
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, decode_pdb
from tenon.kube.timestamps import format_instant
from tenon.messages.base import ClaimRef
from tenon.messages.node_steps import BlockedPods
from tenon.node import drain
from tenon.node.drain_blockers import grouped, refused_eviction
from tenon.node.remedies import deadlines, remedies, report
from tenon.node.state import Blocked, Leave, NodeState, Stage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = ClaimRef(cluster="c", name="web-1", uid="u")


def blocked(stage: Stage, *pods: BlockedPods | None, message: str = "", **fields: Any) -> NodeState:
    why = Blocked(message=message, pods=tuple(pod for pod in pods if pod is not None))
    state = NodeState(claim=REF, stage=stage, node_name="node-1", **fields)
    return state.model_copy(update={"blocked": why if why != Blocked() else None})


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}, **metadata},
        "spec": {},
        "status": {"phase": "Running"},
    }


def budget(name: str) -> PodDisruptionBudget:
    return PodDisruptionBudget("default", None, never=False, blocks=True, name=f"default/{name}")


def awaited(body: dict[str, Any], force_at: datetime | None = None) -> BlockedPods | None:
    return drain.decide(pod_of(body), NOW, turn=True, force_at=force_at, force=False).blocked


def refused(name: str, budgets: list[PodDisruptionBudget]) -> BlockedPods:
    return refused_eviction(pod_of(pod(name)), budgets, by_budget=True, answer="")


def test_every_holder_of_a_drain_gets_its_command() -> None:
    """TRM-05: budgets, protections and finalizers, from the very records that a drain writes."""
    protected = pod("p", annotations={"karpenter.sh/do-not-disrupt": "true"})
    unevictable = pod("e", annotations={"karpenter.sh/do-not-evict": "true"})
    waiting_items = pod("f", deletionTimestamp="2026-03-01T11:59:40Z", finalizers=["example.com/x"])
    state = blocked(
        Stage.DRAINING,
        refused("a", [budget("one")]),
        refused("b", [budget("one"), budget("two")]),
        awaited(protected, NOW + timedelta(hours=1)),
        awaited(unevictable),
        awaited(waiting_items),
    )
    assert remedies(state) == [
        "relax PodDisruptionBudget default/one: `kubectl edit poddisruptionbudget -n default one`",
        "relax PodDisruptionBudget default/two: `kubectl edit poddisruptionbudget -n default two`",
        "allow eviction of pod default/p: `kubectl annotate pod -n default p karpenter.sh/do-not-disrupt-`",
        "allow eviction of pod default/e: `kubectl annotate pod -n default e karpenter.sh/do-not-evict-`",
        "remove the finalizers of pod default/f: "
        '`kubectl patch pod -n default f --type=merge -p \'{"metadata":{"finalizers":null}}\'`',
        "`tenon node force-drain web-1` deletes the pods at once, whatever protects them",
    ]


def needing(min_available: int | str, expected_pods: int = 2) -> PodDisruptionBudget:
    """A budget as the API server has it, which allows no eviction."""
    body = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {}, "minAvailable": min_available},
        "status": {"disruptionsAllowed": 0, "expectedPods": expected_pods},
    }
    return decode_pdb(json.dumps(body).encode()).value


OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "o", "controller": True}


def test_a_budget_that_keeps_every_replica_is_also_resolved_by_one_more() -> None:
    """Its minAvailable is the number of replicas, so that it allows an eviction at no time."""
    owned = pod_of(pod("db-0", ownerReferences=[OWNER]))
    other = pod_of(pod("web-0", ownerReferences=[{**OWNER, "name": "web"}]))
    keeps_all = [refused_eviction(item, [needing(2)], by_budget=True, answer="") for item in (owned, other)]
    relax = "relax PodDisruptionBudget default/web: `kubectl edit poddisruptionbudget -n default web`"
    first, second, _ = remedies(blocked(Stage.DRAINING, *grouped(keeps_all[:1])))
    assert first == (
        "run more replicas, because PodDisruptionBudget default/web keeps 2: "
        "`kubectl scale statefulset -n default db --current-replicas=2 --replicas=3`"
    )
    assert second == relax
    (together,) = grouped(keeps_all)
    first, second, _ = remedies(blocked(Stage.DRAINING, together))
    assert first == "run more replicas: PodDisruptionBudget default/web keeps 2, so that of 3 one may leave"
    assert second == relax


@pytest.mark.parametrize("min_available", ["100%", 1])
def test_more_replicas_are_no_remedy_where_they_change_nothing(min_available: int | str) -> None:
    """A share of them is as many more; and a budget that keeps fewer waits for a pod that is not ready."""
    refusal = refused_eviction(pod_of(pod("a")), [needing(min_available)], by_budget=True, answer="")
    assert [line.split()[0] for line in remedies(blocked(Stage.DRAINING, refusal))] == ["relax", "`tenon"]
    twice = refused_eviction(pod_of(pod("a")), [needing(2), budget("two")], by_budget=True, answer="")
    assert not any("replicas" in line for line in remedies(blocked(Stage.DRAINING, twice)))


PDBS = [budget(name) for name in ("one", "two", "three")]
GRACE = [None, NOW + timedelta(hours=1)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_budget_that_keeps_a_pod_has_its_remedy(count: int) -> None:
    other = refused_eviction(pod_of(pod("b")), [budget("one")], by_budget=False, answer="no")
    names = remedies(blocked(Stage.DRAINING, refused("a", PDBS[:count]), other))
    assert len(names) == count + 1, "and the one by force"
    for pdb in PDBS[:count]:
        assert any(f"`kubectl edit poddisruptionbudget -n {pdb.name.replace('/', ' ')}`" in line for line in names)


@pytest.mark.parametrize("force_at", GRACE)
@pytest.mark.parametrize(
    ("annotation", "value", "started"),
    [
        ("do-not-disrupt", "true", NOW),
        ("do-not-evict", "true", NOW),
        ("do-not-disrupt", "2h", None),
        ("do-not-disrupt", "2h", NOW),
    ],
)
def test_each_protection_has_its_remedy(
    annotation: str, value: str, started: datetime | None, force_at: datetime | None
) -> None:
    waiting_items = pod("p", annotations={f"karpenter.sh/{annotation}": value})
    waiting_items["status"]["startTime"] = started and format_instant(started)
    why = awaited(waiting_items, force_at)
    first, _ = remedies(blocked(Stage.DRAINING, why))
    assert f"`kubectl annotate pod -n default p karpenter.sh/{annotation}-`" in first


@pytest.mark.parametrize("force_at", GRACE)
@pytest.mark.parametrize("finalizers", [["example.com/x"], ["example.com/x", "example.com/y"]])
def test_finalizers_have_their_remedy(finalizers: list[str], force_at: datetime | None) -> None:
    waiting_items = pod("f", deletionTimestamp="2026-03-01T11:59:40Z", finalizers=finalizers)
    why = awaited(waiting_items, force_at)
    first, _ = remedies(blocked(Stage.DRAINING, why))
    assert "`kubectl patch pod -n default f " in first


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
def test_a_block_in_any_stage_has_a_way_out(stage: Stage) -> None:
    assert any("`" in remedy for remedy in remedies(blocked(stage, message="something")))
    assert remedies(blocked(stage)) == []


def test_what_happens_by_itself_is_shown_with_its_time() -> None:
    """TRM-06, LIF-05: the end of the grace period, the time to join, the next try."""
    leave = Leave(reason="expired", asked_at=NOW)
    draining = blocked(
        Stage.DRAINING,
        message="x",
        leave=leave,
        force_at=NOW + timedelta(hours=48),
        deadline=NOW + timedelta(minutes=5),
    )
    assert [subject.split()[0] for subject, _ in deadlines(draining)] == ["Next", "All"]
    assert "whatever protects them, by 2026-03-03 12:00:00 UTC" in report(draining)
    assert "#### If no one acts" in report(draining)
    assert "does not end by itself" not in report(draining)
    assert "does not end by itself" in report(draining.model_copy(update={"force_at": None}))
    forced = draining.model_copy(update={"leave": leave.model_copy(update={"force": True}), "deadline": None})
    assert deadlines(forced) == []
    joining = blocked(Stage.REGISTERING, deadline=NOW)
    assert "Given up, unless a Node has joined, at 2026-03-01 12:00:00 UTC" in report(joining)
    starting = blocked(Stage.INITIALIZING, registered_at=NOW, initialization_timeout_seconds=1800.0)
    assert "Given up, unless initialized, at 2026-03-01 12:30:00 UTC" in report(starting)
    assert report(NodeState(claim=REF, stage=Stage.LIVE)) == ""
