"""What holds a pod: the cache, which looks for candidates, and the last check of a candidate give the same answer."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from activities.disruption.commands import CommandActivities
from activities.kubernetes.resources import PDBS
from tenon.disruption.rules.held_pods import holder
from tenon.kube.pod_decode import decode_pod
from tenon.kube.pod_disruption_budgets import decode_pdb
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.world import REF, World, pod

KEPT = "karpenter.sh/do-not-disrupt"
REFUSED = "PodDisruptionBudget default/web allows no eviction"


def budget(allowed: int | None, name: str = "web", generation: int = 1, **fields: Any) -> dict[str, Any]:
    """A PodDisruptionBudget that the disruption controller has seen at generation 1."""
    status = {} if allowed is None else {"disruptionsAllowed": allowed, "observedGeneration": 1}
    return {
        "metadata": {"name": name, "namespace": "default", "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **fields.get("spec", {})},
        "status": status | fields.get("status", {}),
    }


def running(ready: bool = True, started: float | None = -60, bound: float = -90, **fields: Any) -> dict[str, Any]:
    """A running pod; the times are seconds from now."""
    body = pod("web-1", **fields.get("spec", {}))
    body["metadata"] |= fields.get("metadata", {})
    body["status"] = {
        "phase": fields.get("phase", "Running"),
        "conditions": [
            {"type": "Ready", "status": str(ready)},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(START + timedelta(seconds=bound))},
        ],
    }
    if started is not None:
        body["status"]["startTime"] = stamp(START + timedelta(seconds=started))
    return body


def annotated(value: str, name: str = KEPT, **annotations: str) -> dict[str, Any]:
    return {"annotations": {name: value, **annotations}}


DELETING = {"deletionTimestamp": stamp(START), "deletionGracePeriodSeconds": 30}
HEALTHY = {"currentHealthy": 2, "desiredHealthy": 2}
MIRROR = {"kubernetes.io/config.mirror": "x"}
TOLERATES = {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}
SURGES = {
    "labels": {"app": "web", "pod-template-hash": "5d8f"},
    "annotations": {"tenon.sh/surge": "true"},
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "o", "controller": True}
    ],
}


@pytest.mark.parametrize(
    ("body", "budgets", "why"),
    [
        (running(), [budget(0)], REFUSED),
        (running(), [budget(None)], REFUSED),
        (running(), [budget(1)], ""),
        (running(), [budget(1, spec={"maxUnavailable": 0})], ""),
        (running(), [budget(1, generation=2)], REFUSED),
        (running(), [budget(2), budget(2, "too")], "PodDisruptionBudgets default/too, default/web all select it"),
        (running(phase="Pending"), [budget(0), budget(0, "too")], ""),
        (running(metadata=DELETING), [budget(0)], ""),
        (running(ready=False), [budget(0)], REFUSED),
        (running(ready=False), [budget(0, spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})], ""),
        (running(ready=False), [budget(0, status=HEALTHY)], ""),
        (running(ready=False), [budget(0, generation=2, status=HEALTHY)], ""),
        (running(ready=True), [budget(0, status=HEALTHY)], REFUSED),
        (running(ready=False), [budget(0, status=HEALTHY | {"currentHealthy": 1})], REFUSED),
        (running(ready=False), [budget(0, status={"currentHealthy": 0, "desiredHealthy": 0})], REFUSED),
        (running(spec=TOLERATES), [budget(0)], ""),
        (running(metadata={"annotations": MIRROR}), [budget(0)], ""),
    ],
)
async def test_dis13_a_budget_blocks_what_the_eviction_api_refuses(
    body: dict[str, Any], budgets: list[dict[str, Any]], why: str
) -> None:
    assert await answers(body, *budgets) == (why, why)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (running(metadata=annotated("true")), f"annotation {KEPT} protects it"),
        (running(metadata=annotated("true", **MIRROR)), f"annotation {KEPT} protects it"),
        (running(metadata=annotated("true"), spec=TOLERATES), f"annotation {KEPT} protects it"),
        (running(metadata=annotated("true", "karpenter.sh/do-not-evict")), "annotation karpenter.sh/do-not-evict"),
        (running(metadata=annotated("true") | DELETING), ""),
        (running(metadata=annotated("1h"), started=-3590, bound=-3700), f"annotation {KEPT} protects it until"),
        (running(metadata=annotated("1h"), started=-3600, bound=-3590), ""),
        (running(metadata=annotated("1h"), started=None, bound=-3700), f"annotation {KEPT} protects it for 1h"),
    ],
)
async def test_dis13_ann01_do_not_disrupt_protects_for_both_alike(body: dict[str, Any], why: str) -> None:
    """ANN-01: also mirror pods and pods that a drain leaves alone. A duration counts from the start of the pod."""
    cached, fresh = await answers(body)
    assert cached == fresh
    assert (bool(cached), cached[: len(why)]) == (bool(why), why)


async def test_wsh16_the_last_check_comes_after_the_surge() -> None:
    """Until then, the pod's controller would move it. A pod that is still there needs an eviction."""
    assert await answers(running(metadata=SURGES), budget(0)) == ("", REFUSED)


async def answers(body: dict[str, Any], *budgets: dict[str, Any]) -> tuple[str, str]:
    """What holds the pod according to the cache, and according to the last check."""
    records = [decode_pdb(json.dumps(budget).encode()).value for budget in budgets]
    cached = holder([(decode_pod(json.dumps(body).encode()), records)], START)
    world = World().put_live().put_pods(body)
    for item in budgets:
        world.kube.add(PDBS, item)
    candidate = DisruptionCandidate(claim=REF.name, uid=REF.uid, pool="web", since=START)
    command = DisruptionCommand(id="drifted-1", candidates=[candidate], moves_pods=True, reason="Drifted")
    steps = CommandActivities(world.kube, world.recorder, world.clock)
    failure = (await steps.check_candidates(DisruptInput(cluster=REF.cluster, command=command))).failure
    prefix = "pod default/web-1: "
    return cached.removeprefix(prefix), failure.removeprefix(f"NodeClaim {REF.name}: {prefix}")
