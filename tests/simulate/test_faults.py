"""Input that cannot be used: status 2, nothing on stdout, and a line for each fault that names its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulate.running import POOL, catalogue, command, deployment, simulate

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: "
NOT_A_QUANTITY = "is not a quantity: write a number with an optional suffix, such as 250m or 1Gi"


PLAIN = "{containers: [{name: main}]}"


def pod(spec: str) -> str:
    return POD + spec


def requesting(requests: str) -> str:
    return pod(f"{{containers: [{{name: a, resources: {{requests: {requests}}}}}]}}")


def created(time: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, creationTimestamp: '{time}'}}\nspec: {{}}"


NO_TIME = "Pod default/p: metadata.creationTimestamp: '{}' is not a time such as 2026-01-31T12:00:00Z"
REQUESTS = "Pod default/p: spec.containers[0].resources.requests"
AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (requesting("{cpu: -1}"), f"{REQUESTS}.cpu: -1 is below zero: a quantity must not be negative"),
        (requesting("{cpu: much}"), f"{REQUESTS}.cpu: 'much' {NOT_A_QUANTITY}"),
        (requesting("{memory: 1e40}"), f"{REQUESTS}.memory: 1e+40 is larger than any quantity that Kubernetes keeps"),
        (
            requesting("{memory: 99999999999999999999}"),
            f"{REQUESTS}.memory: does not fit into 64 bits: write a smaller",
        ),
        (requesting("{example.com/x: {}}"), f"{REQUESTS}[example.com/x]: {NOT_A_QUANTITY}"),
        (
            requesting("{nvidia.com/gpu: 500m}"),
            "Pod default/p: spec.containers[0].resources: nvidia.com/gpu: 500m is not a whole number: devices cannot",
        ),
        (pod("{}"), "Pod default/p: spec.containers: is required"),
        (pod("{containers: []}"), "Pod default/p: spec.containers: is empty: a pod has at least one container"),
        (pod("5"), "Pod default/p: spec: is not a mapping"),
        (pod("{priority: high}"), "Pod default/p: spec.priority: is not a whole number"),
        (pod("{nodeSelector: {a: 1}}"), "Pod default/p: spec.nodeSelector.a: is not a string: put it in quotes"),
        (
            pod("{tolerations: [{operator: Equal}]}"),
            "Pod default/p: spec.tolerations[0]: a toleration without key must have operator Exists",
        ),
        (
            pod("{topologySpreadConstraints: [{maxSkew: 0, topologyKey: a}]}"),
            "Pod default/p: spec.topologySpreadConstraints[0].maxSkew: must be greater than or equal to 1",
        ),
        (
            pod(f"{{affinity: {{podAffinity: {{{AFFINITY}: [{{labelSelector: {{}}}}]}}}}}}"),
            f"Pod default/p: spec.affinity.podAffinity.{AFFINITY}[0].topologyKey: is required",
        ),
        (
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {volumeName: v}\nstatus: true",
            "PersistentVolumeClaim default/c: status: is not a mapping",
        ),
        (created("2026-01-01"), NO_TIME.format("2026-01-01")),
        (created("2026-01-01T00:00:00"), NO_TIME.format("2026-01-01T00:00:00")),
        (created("9999-12-31T23:59:59-14:00"), NO_TIME.format("9999-12-31T23:59:59-14:00")),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nspec: {taints: [{key: a b, effect: NoSchedule}]}",
            "Node node-1: spec.taints[0].key: 'a b' does not match",
        ),
        ("[1]", "is a list, not a Kubernetes object"),
        ("only text", "is a text, not a Kubernetes object"),
        ("kind: Pod", "apiVersion: is required"),
        ("apiVersion: v1\nkind: Pod", "Pod: metadata: is required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: Ü}", "Pod Ü: metadata.name: 'Ü' is not the name of an object"),
        (f"{pod(PLAIN)}\n---\n{pod(PLAIN)}", "appears twice, first in"),
        ("apiVersion: v1\nkind: List\nitems: {}", "List: items: is not a list"),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}",
            "NodePool a: spec: is required",
        ),
        (
            "apiVersion: karpenter.sh/v1alpha4\nkind: Provisioner\nmetadata: {name: a}",
            "Provisioner a: apiVersion: karpenter.sh/v1alpha4 is not a supported version: write karpenter.sh/v1alpha5",
        ),
        (POOL.replace("On", "Off").replace("values", "values: [], x"), "spec.template.spec.requirements[0]"),
        (POOL + "  limits: {cpu: -5}", "NodePool default: spec.limits[cpu]: -5 is below zero"),
        (deployment(replicas=-1), "Deployment default/web: spec.replicas: must be greater than or equal to 0"),
        (deployment(replicas=10**9), "Deployment default/web: spec.replicas: 1000000000 pods are too many"),
        (deployment().replace('{"app": "web"}}, "template"', '{}}, "template"'), "its selector is empty"),
        (deployment().replace('"selector": {"matchLabels": {"app"', '"selector": {"matchLabels": {"b"'), "label b=web"),
        (deployment() + "\n---\n" + pod(PLAIN).replace("name: p", "name: web-1"), "makes Pod default/web-1, which"),
    ],
)
def test_a_fault_names_its_object_and_field(tmp_path: Path, text: str, line: str) -> None:
    assert any(line in fault for fault in simulate(tmp_path, text).faults)


def test_a_time_that_no_calendar_holds_is_not_the_newest(tmp_path: Path) -> None:
    odd = "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: {at: '9999-12-31T23:59:59-14:00'}}"
    assert simulate(tmp_path, POOL + deployment() + odd).status == 0


def test_every_fault_of_every_document_is_reported_once_in_order(tmp_path: Path) -> None:
    text = "\n---\n".join([requesting("{cpu: -1, memory: x}"), POOL, "a: [", POOL])
    places = [fault.partition(":")[0] for fault in simulate(tmp_path, text).faults]
    assert places == ["document 1", "document 1", "document 3"]


def test_a_line_stays_a_line_whatever_the_names_hold(tmp_path: Path) -> None:
    hostile = 'apiVersion: v1\nkind: Pod\nmetadata: {name: "a\\nb\\u001b[31m"}'
    (fault,) = simulate(tmp_path, hostile).faults
    assert "\x1b" not in fault


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"\x80abc"])
def test_bytes_that_are_no_text(raw: bytes) -> None:
    answer = command("-f", "-", "-o", "json", stdin=raw)
    assert answer.status == 2
    assert answer.err.startswith("standard input: is not UTF-8 text")


def test_files_that_are_not_there_and_folders_without_manifests(tmp_path: Path) -> None:
    answer = command("-f", str(tmp_path / "none.yaml"), "-f", str(tmp_path), "-o", "json")
    assert (answer.status, answer.out) == (2, "")
    assert "none.yaml: cannot be read: No such file" in answer.err
    assert "is a folder without manifests" in answer.err
    assert command("-o", "json").status == 2


SALE = {"zone": "us-west-2a", "price": 1.0}


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"instanceTypes": 5}, "instanceTypes: is not a list"),
        ({}, "instanceTypes: is required"),
        ({"instanceTypes": [5]}, "instanceTypes[0]: is not a mapping"),
        ({"instanceTypes": [{"name": "a"}]}, "instance type a: instanceTypes[0].capacity: is required"),
        (
            {"instanceTypes": [{"name": "a", "capacity": {"cpu": "-1"}, "offerings": []}]},
            "instance type a: instanceTypes[0].capacity.cpu: -1 is below zero",
        ),
        (
            {"instanceTypes": [{"name": "a", "capacity": {}, "offerings": [{"zone": "z", "capacityType": "spot"}]}]},
            "instanceTypes[0].offerings[0].price: is required",
        ),
        (
            {"instanceTypes": [{"name": "a", "capacity": {}, "offerings": [{**SALE, "capacityType": "weird"}]}]},
            "instanceTypes[0].offerings[0].capacityType: 'weird' is not one of 'on-demand', 'spot', 'reserved'",
        ),
        (
            {"instanceTypes": [{"name": "a", "capacity": {}, "offerings": [{**SALE, "capacityType": "reserved"}]}]},
            "instanceTypes[0].offerings[0]: is reserved and names no reservationId",
        ),
        (
            {"instanceTypes": [{"name": "a", "capacity": {}, "offerings": []}] * 2},
            "instance type a is listed twice",
        ),
    ],
)
def test_a_catalogue_that_cannot_be_used(tmp_path: Path, edit: object, why: str) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps(edit))
    answer = simulate(tmp_path, POOL, "--catalog", str(file))
    assert (answer.status, answer.out) == (2, "")
    assert why in answer.err


def test_ten_megabytes_are_read(tmp_path: Path) -> None:
    padding = "x" * 10_000_000
    answer = simulate(
        tmp_path,
        f"{POOL}---\n{pod(PLAIN)}\n---\napiVersion: v1\nkind: Secret\n"
        f"metadata: {{name: s, annotations: {{a: {padding}}}}}\n",
    )
    assert answer.plan["totals"]["pods"] == 1
    assert catalogue(tmp_path).exists()
