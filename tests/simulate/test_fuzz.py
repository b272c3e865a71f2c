"""Manifests with anything in any of their fields: a plan or sentences, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scheduling.builders import ordinary_entries
from tests.simulate.mutating import ANYTHING, CHANGES, changed, places
from tests.simulate.running import POOL, Answer, catalogue, deployment, node, simulate

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
STORAGE = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {volumeName: v, storageClassName: late, accessModes: [ReadWriteOnce]}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec:
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  capacity: {storage: 1Gi}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z]}]}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [us-west-2a]}]}]
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: n1, topologyKeys: [a], allocatable: {count: 1}}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: late}}]
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: a, resources: {requests: {cpu: 1}}, volumeMounts: [{name: data, mountPath: /d}]}]
      volumes: [{name: e, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: late}}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: a}]}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {a: b}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: a}}}
---
apiVersion: v1
kind: List
items: [{apiVersion: v1, kind: Pod, metadata: {name: listed}, spec: {containers: [{name: a}]}}]
"""
GOOD: list[dict[str, Any]] = [
    document
    for text in (POOL, RUNNING, node(labels={"a": "b"}), deployment(priorityClassName="high"), STORAGE)
    for document in yaml.safe_load_all(text)
    if document
]
PLACES = [(number, path) for number, document in enumerate(GOOD) for path in places(document)]
CATALOGUE = {"instanceTypes": ordinary_entries()[:3]}
EDITS = st.tuples(st.integers(0, len(CHANGES) - 1), st.sampled_from(ANYTHING))


def judged(answer: Answer) -> None:
    """Either a plan or lines of reasons, each short enough to be read, and nothing else."""
    if answer.status == 0:
        json.loads(answer.out)
    else:
        assert (answer.status, answer.out) == (2, "")
        assert answer.err
        assert "Traceback" not in answer.err
        assert all(0 < len(line) < 1000 for line in answer.err.splitlines())


def as_text(documents: list[dict[str, Any]]) -> str:
    return "\n---\n".join(json.dumps(document) for document in documents)


def test_the_documents_are_right_before_they_are_changed(tmp_path: Path) -> None:
    assert simulate(tmp_path, as_text(GOOD)).status == 0


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), EDITS), min_size=1, max_size=3))
def test_any_change_at_any_place(
    tmp_path: Path, edits: list[tuple[tuple[int, tuple[Any, ...]], tuple[int, Any]]]
) -> None:
    documents = changed(GOOD, [(number, path, *edit) for (number, path), edit in edits])
    judged(simulate(tmp_path, as_text(documents), "--disruption"))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(list(places(CATALOGUE))), EDITS), min_size=1, max_size=2))
def test_any_change_at_any_place_of_a_catalogue(
    tmp_path: Path, edits: list[tuple[tuple[Any, ...], tuple[int, Any]]]
) -> None:
    (document,) = changed([CATALOGUE], [(0, path, *edit) for path, edit in edits])
    file = tmp_path / "own.json"
    file.write_text(json.dumps(document))
    judged(simulate(tmp_path, POOL + deployment(replicas=3), "--catalog", str(file)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4000), st.text(st.sampled_from("{}[]:-&*!|>'\"\n 1a,"), max_size=6), st.integers(0, 8))
def test_a_file_with_bytes_changed(tmp_path: Path, at: int, text: str, drop: int) -> None:
    whole = POOL + "---" + RUNNING + node() + deployment()
    at %= len(whole)
    judged(simulate(tmp_path, whole[:at] + text + whole[at + drop :]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 4))
def test_a_catalogue_with_bytes_changed(tmp_path: Path, at: int, raw: bytes, drop: int) -> None:
    whole = catalogue(tmp_path).read_bytes()
    at %= len(whole)
    file = tmp_path / "own.json"
    file.write_bytes(whole[:at] + raw + whole[at + drop :])
    judged(simulate(tmp_path, POOL + deployment(replicas=3), "--catalog", str(file)))


MUCH = 10_000_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * MUCH,
        "{a: " * (MUCH // 4),
        '{"a":' * (MUCH // 5),
        "a" * MUCH + ": 1",
        "a: " + "9" * MUCH,
        "!" * MUCH,
        "\x00" * MUCH,
        "- &a x\n" + "- *a\n" * 250_000 + "#" * (MUCH - 1_250_000),
        POOL + deployment(cpu="1" * MUCH),
        POOL.replace("name: default}", "name: " + "d" * MUCH + "}"),
        '{"a": [' + "1," * (MUCH // 2) + "1]}",
    ],
    ids=["lists", "mappings", "objects", "key", "number", "tag", "nul", "aliases", "quantity", "name", "values"],
)
def test_ten_megabytes_of_malice_are_refused(tmp_path: Path, text: str) -> None:
    answer = simulate(tmp_path, text)
    judged(answer)
    assert answer.status == 2


@pytest.mark.parametrize("value", ["9223372036854775807", "8E", "7Ei", "1e18"])
def test_requests_beyond_all_machines_are_unschedulable_and_no_overflow(tmp_path: Path, value: str) -> None:
    text = POOL + deployment("a", 40, cpu=value, memory=value) + deployment("b", 2)
    answer = simulate(tmp_path, text)
    assert answer.status in (0, 2)
    if answer.status == 0:
        assert answer.plan["totals"]["unschedulable"] == 40
