"""What the comparison with upstream makes of its runs: counts, medians, catalogues, the table and its JSON."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, MarkerRecordedEventAttributes

from benchmarks.bill import Bill
from benchmarks.comparison import floor, histories, kwok_types, report, upstream
from benchmarks.comparison.api_requests import Request, count_requests, read_requests
from benchmarks.comparison.histories import PerNode
from benchmarks.comparison.machine import Machine, processor
from benchmarks.comparison.medians import Medians, as_document, medians
from benchmarks.comparison.sample import Sample
from benchmarks.load_run import loads
from benchmarks.scale_in import Figures
from benchmarks.usage import Used
from sandbox.kwok import KUBELET_ANNOTATION, NODE_ANNOTATION
from tenon.apis import labels
from tenon.resources import parse_resources

MACHINE = Machine("Some CPU", 2, 24, 0.5)
GET_NODE = Request("autoscaler", "get", "nodes")
NODE = PerNode(2, 54, 9, 5, 1, 3, 38.0)


def sample(
    seconds: float,
    *,
    running: int = 10,
    nodes: int = 3,
    used: Mapping[str, Used] | None = None,
    requests: Mapping[Request, int] | None = None,
    price: float | None = None,
    per_node: PerNode | None = None,
    then: Figures | None = None,
) -> Sample:
    cost = None if price is None else Bill(price, nodes, 1.0, nodes, 1.0)
    return Sample(seconds, running, nodes, 0, used or {}, Counter(requests or {}), cost, per_node, then)


def audited(user: str, verb: str, resource: str, second: int, *, subresource: str = "", stage: str = "") -> str:
    reference = {"resource": resource, **({"subresource": subresource} if subresource else {})}
    event = {
        "stage": stage or "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "objectRef": reference,
        "requestReceivedTimestamp": f"1970-01-01T00:00:{second:02}.000000Z",
    }
    return json.dumps(event)


def test_requests_count_by_client_verb_and_resource_within_the_run() -> None:
    lines = [
        audited("system:serviceaccount:tenon:tenon", "get", "nodes", 9),
        audited("system:serviceaccount:tenon:tenon", "get", "nodes", 10),
        audited("system:serviceaccount:karpenter:karpenter", "get", "nodes", 20),
        audited("system:serviceaccount:tenon:tenon", "create", "pods", 11, subresource="binding"),
        audited("system:serviceaccount:kube-system:replicaset-controller", "create", "pods", 12),
        audited("system:node:new", "get", "nodes", 13),
        audited("sandbox:ec2", "get", "nodes", 21),
    ]
    assert count_requests(lines, (10.0, 20.0)) == {
        GET_NODE: 2,
        Request("autoscaler", "create", "pods/binding"): 1,
        Request("kube-controller-manager", "create", "pods"): 1,
        Request("system:node:new", "get", "nodes"): 1,
    }


def test_a_line_that_is_not_complete_yet_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    line = audited("system:serviceaccount:tenon:tenon", "get", "nodes", 1)
    log.write_text(f"{line}\n{line[:40]}")
    assert read_requests(log, (0.0, 9.0)) == {GET_NODE: 1}


def test_a_watch_counts_once_when_it_begins() -> None:
    user = "system:kube-scheduler"
    lines = [
        audited(user, "watch", "pods", 1, stage="ResponseStarted"),
        audited(user, "watch", "pods", 1, stage="ResponseComplete"),
        audited(user, "list", "pods", 1, stage="ResponseStarted"),
        audited(user, "list", "pods", 1, stage="ResponseComplete"),
    ]
    assert count_requests(lines, (0.0, 9.0)) == {
        Request("kube-scheduler", "watch", "pods"): 1,
        Request("kube-scheduler", "list", "pods"): 1,
    }


def test_a_request_for_no_resource_counts_by_its_path() -> None:
    event = json.loads(audited("sandbox-admin", "get", "x", 1))
    del event["objectRef"]
    line = json.dumps({**event, "requestURI": "/readyz?verbose"})
    assert count_requests([line], (0.0, 9.0)) == {Request("benchmark", "get", "/readyz"): 1}


def test_events_of_a_history_count_by_kind_and_local_activities_by_their_marker() -> None:
    def marker(name: str) -> HistoryEvent:
        return HistoryEvent(
            event_type=EventType.EVENT_TYPE_MARKER_RECORDED,
            marker_recorded_event_attributes=MarkerRecordedEventAttributes(marker_name=name),
        )

    events = [
        HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED),
        HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED),
        HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED),
        HistoryEvent(event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED),
        HistoryEvent(event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED),
        HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED),
        marker("core_local_activity"),
        marker("core_patch"),
    ]
    count = histories.count(events)
    assert count.pop("bytes") > 0
    assert +count == {
        "events": 8,
        "runs": 1,
        "workflow_tasks": 1,
        "activities": 1,
        "signals": 1,
        "local_activities": 1,
    }
    assert histories.means(Counter({"events": 300, "bytes": 8000}), 4) == PerNode(0, 75, 0, 0, 0, 0, 2.0)
    assert histories.means(Counter(), 0) == PerNode(0, 0, 0, 0, 0, 0, 0)


def test_every_figure_is_its_median_over_the_runs() -> None:
    parts = [
        {"worker": Used(cpu, memory), "worker: io": Used(cpu / 2, memory / 2), "etcd": Used(1.0, 50.0)}
        for cpu, memory in ((10.0, 300.0), (30.0, 200.0), (20.0, 100.0))
    ]
    observations = medians(
        [
            sample(60.0, used=parts[0], requests={GET_NODE: 5}, price=1.2, per_node=NODE),
            sample(50.0, nodes=5, used=parts[1], requests={GET_NODE: 7}, price=1.0, per_node=NODE),
            sample(90.0, running=9, used=parts[2], price=1.1, per_node=NODE),
        ]
    )
    assert observations.runs == [60.0, 50.0, 90.0]
    assert (observations.seconds, observations.nodes, observations.running) == (60.0, 3, 9)
    assert observations.worker == Used(20.0, 200.0)
    assert observations.cpu_seconds == 21.0, "a part of the worker counts once"
    assert observations.requests == {GET_NODE: 5}, "no request in the third run"
    assert (observations.price, observations.price_ratio) == (1.1, 1.1)
    assert observations.per_node == NODE


def test_the_document_has_each_contender_with_its_medians() -> None:
    result = {
        "floor": medians([sample(36.0, used={"etcd": Used(4.0, 50.0)})]),
        "upstream": medians([sample(64.0, used={"worker": Used(23.0, 189.0)}, price=1.1)]),
        "tenon": medians([sample(80.0, used={"worker": Used(60.0, 676.0)}, price=1.0, per_node=NODE)]),
    }
    document = json.loads(json.dumps(report.as_document(10, MACHINE, result)))
    keys = ("seconds", "cpuSeconds", "nodes", "workerMegabytes")
    assert [document["floor"][key] for key in keys] == [36.0, 4.0, 3, 0.0]
    assert [document["upstream"][key] for key in keys] == [64.0, 23.0, 3, 189.0]
    assert [document["tenon"][key] for key in keys] == [80.0, 60.0, 3, 676.0]
    assert document["machine"]["processor"] == "Some CPU"
    assert document["tenon"]["perNode"]["events"] == 54
    assert document["floor"]["priceRatio"] is None


def test_requests_are_listed_with_the_most_frequent_first() -> None:
    other = Request("kwok", "patch", "pods/status")
    document = as_document(medians([sample(1.0, requests={GET_NODE: 5, other: 9})]))
    assert document["requests"]["all"] == 14
    assert document["requests"]["byClient"] == {"kwok": 9, "autoscaler": 5}
    assert [count["count"] for count in document["requests"]["counts"]] == [9, 5]


def rows(medians: Mapping[str, Medians]) -> dict[str, list[str]]:
    output = io.StringIO()
    table = report.as_table(10, MACHINE, medians)
    Console(file=output, width=200).print(table)
    lines = (line.strip("┃│").split("│") for line in output.getvalue().splitlines() if "│" in line)
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}


def test_the_table_has_a_row_for_each_part_and_each_frequent_request() -> None:
    rare = Request("autoscaler", "list", "pods")
    names = rows(
        {
            "floor": medians([sample(36.0, used={"etcd": Used(4.0, 50.0)})]),
            "tenon": medians(
                [
                    sample(
                        80.04,
                        used={"etcd": Used(5.0, 60.0), "worker": Used(60.0, 676.0)},
                        requests={GET_NODE: 450, rare: 99},
                        price=1.012,
                        per_node=NODE,
                    )
                ]
            ),
        }
    )
    assert names["seconds until all pods run"] == ["36.0", "80.0"]
    assert names["price over a repack"] == ["-", "1.012"]
    assert names["etcd"] == ["4.0 / 50", "5.0 / 60"]
    assert names["worker"] == ["-", "60.0 / 676"]
    assert names["autoscaler"] == ["-", "549"]
    assert names["get nodes"] == ["-", "450"]
    assert "list pods" not in names
    assert names["history events"] == ["-", "54"]


def test_a_run_that_did_not_finish_has_no_time() -> None:
    names = rows({"tenon": medians([sample(80.0), sample(300.0, running=9)])})
    assert names["seconds until all pods run"] == ["never"]
    assert names["pods that run"] == ["9"]


def scaled_in(to_goal: float | None, still: float | None, drained: int) -> Figures:
    used = {"worker": Used(2.0, 10.0), "worker: io": Used(1.0, 5.0), "etcd": Used(3.0, 1.0)}
    return Figures(10, 7, [], to_goal, still, drained, Bill(1.1, 2, 1.0, 2, 1.0), used, 2)


def test_a_scale_in_has_medians_and_says_how_many_runs_came_to_its_goal() -> None:
    observations = {
        "floor": medians([sample(1.0)]),
        "upstream": medians([sample(1.0, then=scaled_in(None, 200.0, 9)), sample(1.0, then=scaled_in(90.0, 100.0, 5))]),
        "tenon": medians([sample(1.0, then=scaled_in(80.0, 200.0, 3)), sample(1.0, then=scaled_in(90.0, 100.0, 5))]),
    }
    names = rows(observations)
    assert names["seconds until at most 1.03 of a repack"] == ["-", "in 1 of 2 runs", "85"]
    assert names["seconds until nothing changes"] == ["-", "150", "150"]
    assert names["pods moved"] == ["-", "7", "4"]
    assert names["CPU-seconds in all"] == ["-", "5.0", "5.0"]
    documents = {name: as_document(item)["scaleIn"] for name, item in observations.items()}
    assert documents["floor"] is None
    assert documents["upstream"]["seconds"] is None
    assert documents["tenon"]["seconds"] == 85.0
    assert documents["tenon"]["workerCpuSeconds"] == 2.0


def test_the_processor_is_named() -> None:
    assert processor("processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nmodel name\t: Another\n") == "Some CPU @ 2GHz"
    assert processor("") == "unknown processor"


def kwok_type(name: str, cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    def offering(kind: str, price: float) -> dict[str, Any]:
        declaration = {labels.CAPACITY_TYPE: kind, labels.ZONE: "test-zone-a"}
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in declaration.items()]
        return {"Price": price, "Available": True, "Requirements": terms}

    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": cpu, "memory": memory},
        "offerings": [offering("spot", 0.5), offering("on-demand", 1.0)],
        **more,
    }


def test_upstreams_types_are_what_its_provider_makes_of_them(tmp_path: Path) -> None:
    file = tmp_path / kwok_types.FILE
    file.parent.mkdir(parents=True)
    entries = [
        kwok_type("fits", "16", "32Gi"),
        kwok_type("large", "17", "32Gi"),
        kwok_type("arm", "16", "32Gi", architecture="arm64"),
        kwok_type("windows", "16", "32Gi", operatingSystems=["windows"]),
    ]
    file.write_text(json.dumps(entries))
    pool = kwok_types.pool_of(upstream.node_pool(most_cpus=16), tmp_path)
    [kind] = pool.instance_types
    assert kind.name == "fits"
    assert kind.allocatable == parse_resources({"cpu": "15900m", "memory": "32758Mi", "pods": "110"})
    assert [(offering.zone, offering.capacity_type, offering.price) for offering in kind.offerings] == [
        ("test-zone-a", "spot", 0.5),
        ("test-zone-a", "on-demand", 1.0),
    ]


def test_upstreams_nodes_carry_the_annotation_that_makes_them_ready() -> None:
    template = upstream.node_pool(most_cpus=16)["spec"]["template"]
    assert template["metadata"]["annotations"] == {KUBELET_ANNOTATION: "ready"}


def test_the_floor_has_room_for_every_pod_on_ready_nodes() -> None:
    nodes = list(floor.nodes(1000))
    assert len(nodes) == 150
    assert len(list(floor.nodes(1))) == 1
    assert all(
        node["metadata"]["annotations"] == {NODE_ANNOTATION: "fake", KUBELET_ANNOTATION: "ready"} for node in nodes
    )
    resources = parse_resources(floor.RESOURCES)
    for resource, requests in (("cpu", "cpu"), ("memory", "memory")):
        expectation = sum(
            load.pods * parse_resources({resource: getattr(load, requests)})[resource] for load in loads(1000)
        )
        largest = max(parse_resources({resource: getattr(load, requests)})[resource] for load in loads(1000))
        assert 150 * (resources[resource] - largest) > expectation, (
            "a pod finds room even if every node is as full as it can be"
        )


@pytest.mark.parametrize("other", ["aggregate.yaml", "readme.md"])
def test_only_the_modules_crds_are_installed(tmp_path: Path, other: str) -> None:
    for path in ("pkg/apis/crds/a.yaml", "kwok/apis/crds/b.yaml", f"kwok/charts/templates/{other}"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert {path.name for path in upstream.manifests(tmp_path)} == {"a.yaml", "b.yaml"}
