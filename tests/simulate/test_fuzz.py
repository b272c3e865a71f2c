"""Manifests with anything in any of their fields: a plan or sentences, never a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate.running import POOL, Answer, deployment, node, simulate

RUNNING = """
apiVersion: v1
kind: Pod
metadata: {name: there, creationTimestamp: "2026-01-01T00:00:00Z", labels: {app: a}}
spec:
  nodeName: n1
  priority: 5
  tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
  containers: [{name: a, ports: [{hostPort: 80, protocol: TCP}], resources: {requests: {cpu: 1}, limits: {cpu: 1}}}]
  initContainers: [{name: b, restartPolicy: Always, resources: {requests: {memory: 1Mi}}}]
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ["5"]}]}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: a}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
status: {phase: Running, conditions: [{type: PodScheduled, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c1, labels: {karpenter.sh/nodepool: default}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
  taints: [{key: a, effect: NoSchedule}]
status: {providerID: "aws:///z/i-1", allocatable: {cpu: 1}, capacity: {cpu: 1}, nodeName: n1}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {template: {spec: {containers: [{name: a}], nodeSelector: {a: b}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 5
"""
GOOD: list[dict[str, Any]] = [
    document
    for text in (POOL, RUNNING, node(labels={"a": "b"}), deployment(priorityClassName="high"))
    for document in yaml.safe_load_all(text)
    if document
]
ANYTHING: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**31,
        2**63,
        2**70,
        10**300,
        1e308,
        "",
        "a",
        "-1",
        "1e999",
        "\u0000",
        "ü",
        "a" * 5000,
    ),
    *("1Gi", "9223372036854775807", "9999999999999999999999Ei", "0.0000000001n", "2026-13-01T00:00:00Z", "In"),
    *([], [[]], [None], [{}], ["a"], {}, {"a": "b"}, {"": ""}, {"a": None}, {"a": {"b": []}}, {"cpu": "-1"}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of a document."""
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


PLACES = [(number, path) for number, document in enumerate(GOOD) for path in places(document)]


def judged(answer: Answer) -> None:
    """Either a plan or at least one line of reasons, and nothing else."""
    if answer.status == 0:
        json.loads(answer.out)
    else:
        assert (answer.status, answer.out) == (2, "")
        assert answer.err
        assert "Traceback" not in answer.err


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(ANYTHING)), min_size=1, max_size=2))
def test_any_value_in_any_field(tmp_path: Path, edits: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
    documents = copy.deepcopy(GOOD)
    for (number, path), value in edits:
        inner: Any = documents[number]
        try:
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit took the place away
    judged(simulate(tmp_path, "\n---\n".join(json.dumps(document) for document in documents), "--disruption"))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4000), st.text(st.sampled_from("{}[]:-&*!|>'\"\n 1a,"), max_size=6), st.integers(0, 8))
def test_a_file_with_bytes_changed(tmp_path: Path, at: int, text: str, drop: int) -> None:
    whole = POOL + "---" + RUNNING + node() + deployment()
    at %= len(whole)
    judged(simulate(tmp_path, whole[:at] + text + whole[at + drop :]))


@pytest.mark.parametrize("value", ["9223372036854775807", "8E", "7Ei", "1e18"])
def test_requests_beyond_all_machines_are_unschedulable_and_no_overflow(tmp_path: Path, value: str) -> None:
    text = POOL + deployment("a", 40, cpu=value, memory=value) + deployment("b", 2)
    answer = simulate(tmp_path, text)
    assert answer.status in (0, 2)
    if answer.status == 0:
        assert answer.plan["totals"]["unschedulable"] == 40
