"""Which Deployments start their new pod before the old one stops, and when they have done so."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.surging import (
    deployment_key,
    is_replacing_pods,
    is_rolled_out,
    needs_surge,
    restart,
    why_cannot_surge,
)
from tenon.disruption.deciding import decide
from tenon.disruption.methods.drift import Drift
from tenon.disruption.methods.repair import Repair
from tenon.disruption.rules.held_pods import why_held
from tenon.kube.pod_decode import decode_pod
from tenon.kube.pod_disruption_budgets import decode_pdb
from tests.tenon.disruption.clusters import NOW, Cluster, NodeSpec, PodSpec, RepairSpec, situation

RATIO = {"maxSurge": "25%", "maxUnavailable": "25%"}


def deployment(replicas: int | None = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "db", "namespace": "shop", "generation": 2, "resourceVersion": "7", "annotations": {}}
    return {"metadata": metadata, "spec": {"replicas": replicas, **spec}}


def pod(surge: str | None = "true", kind: str = "ReplicaSet", owner: str = "db-5d8f") -> dict[str, Any]:
    annotations = {} if surge is None else {"tenon.sh/surge": surge}
    return {
        "metadata": {
            "name": f"{owner}-x1",
            "namespace": "shop",
            "uid": "u",
            "labels": {"app": "db", "pod-template-hash": "5d8f"},
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "o", "controller": True}],
        },
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (pod(), "shop/db"),
        (pod(surge=None), ""),
        (pod(surge="yes"), ""),
        (pod(kind="StatefulSet", owner="db"), ""),
        (pod(owner="bare"), ""),
    ],
    ids=["asks", "does-not-ask", "another-value", "statefulset", "replicaset-alone"],
)
def test_wsh16_only_a_pod_of_a_deployment_that_asks_for_it_starts_first(value: dict[str, Any], key: str) -> None:
    record = decode_pod(json.dumps(value).encode())
    assert record.surges is bool(key)
    assert not key or deployment_key(record.pod) == key


@pytest.mark.parametrize("surge", [True, False])
def test_wsh16_a_budget_does_not_keep_a_pod_that_its_controller_moves(surge: bool) -> None:
    budget = {
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    record = decode_pod(json.dumps(pod(surge="true" if surge else None)).encode())
    hold = why_held(record, [decode_pdb(json.dumps(budget).encode()).value], NOW)
    assert bool(hold) is not surge


@pytest.mark.parametrize(
    ("replicas", "blocked", "needs"), [(1, False, True), (None, False, True), (3, False, False), (3, True, True)]
)
def test_wsh16_an_eviction_is_enough_while_other_replicas_serve(
    replicas: int | None, blocked: bool, needs: bool
) -> None:
    assert needs_surge(deployment(replicas), blocked=blocked) is needs


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (deployment(), ""),
        (deployment(strategy={"type": "RollingUpdate", "rollingUpdate": RATIO}), ""),
        (deployment(replicas=3, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 2}}), ""),
        (deployment(strategy={"type": "Recreate"}), "its strategy is Recreate"),
        (deployment(paused=True), "it is paused"),
        (deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}), "its maxSurge is 0"),
        (deployment(strategy={"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}}), "its maxSurge is 0"),
        (
            deployment(strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}),
            "its maxUnavailable lets all its pods go at once",
        ),
    ],
)
def test_wsh16_a_deployment_that_stops_the_old_pod_first_says_why(value: dict[str, Any], why: str) -> None:
    assert why_cannot_surge(value) == why


def test_wsh16_a_command_restarts_a_deployment_once() -> None:
    value = deployment()
    patch = restart(value, "drifted-1", NOW)
    assert patch["metadata"]["resourceVersion"] == "7", "another restart since then is not restarted"
    assert patch["spec"]["template"]["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/restartedAt": "2026-11-21T12:00:00Z"
    }
    value["metadata"]["annotations"] = patch["metadata"]["annotations"]
    assert restart(value, "drifted-1", NOW + timedelta(minutes=1)) == {}
    assert restart(value, "drifted-2", NOW) != {}


DONE = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


@pytest.mark.parametrize(
    ("changed", "replaces", "done"),
    [
        ({}, False, True),
        ({"observedGeneration": 1}, True, False),
        ({"updatedReplicas": 0}, True, False),
        ({"replicas": 2}, True, False),
        ({"availableReplicas": 0}, False, False),
    ],
    ids=["done", "not-seen-yet", "no-new-pod", "old-pod-left", "not-available"],
)
def test_wsh16_a_rollout_is_over_when_new_pods_serve_and_no_old_one_is_left(
    changed: dict[str, int], replaces: bool, done: bool
) -> None:
    value = {**deployment(), "status": {**DONE, **changed}}
    assert (is_replacing_pods(value), is_rolled_out(value)) == (replaces, done)


@pytest.mark.parametrize(
    ("method", "fault", "surge"),
    [
        (Drift(), {"drifted": "AMIDrift"}, ["shop/db"]),
        (Repair(), {"conditions": {"Ready": ["False", "2h", "KubeletNotReady"]}}, []),
    ],
    ids=["drift", "repair"],
)
def test_n15_131_no_deployment_holds_up_a_repair(
    method: Drift | Repair, fault: dict[str, object], surge: list[str]
) -> None:
    """Otherwise one that cannot start its new pod first would keep an unhealthy node for good."""
    node = NodeSpec.model_validate({"type": "m5.large", "pods": [PodSpec()], **fault})
    state = situation(Cluster(nodes={"sick": node}, repair=RepairSpec()))
    assert state.model is not None
    details = {name: replace(detail, surges=("shop/db",)) for name, detail in state.model.details.items()}
    (command,) = decide(replace(state, model=replace(state.model, details=details)), [method]).commands
    assert to_message(command, details=details).surge == surge
