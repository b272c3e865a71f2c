"""A small API server with a fleet that has something of everything: stages, capacity types, pending pods, a command."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tenon.apis import labels
from tests.local_server import running

Object = dict[str, Any]
NODES, PODS, EVENTS = "/api/v1/nodes", "/api/v1/pods", "/api/v1/events"
CLAIMS, POOLS = "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools"
FREEZES = "/apis/tenon.sh/v1alpha1/disruptionfreezes"
ROLLOUTS = "/apis/tenon.sh/v1alpha1/noderollouts"
SCHEDULES = "/apis/tenon.sh/v1alpha1/nodeschedules"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
STAGES = ("Launched", "Registered", "Initialized")
QUANTITIES = {
    "m5.large": ("1930m", "7100Mi"),
    "m5.4xlarge": ("15890m", "57Gi"),
    "c6g.2xlarge": ("7910m", "14Gi"),
    "r6i.xlarge": ("3920m", "29Gi"),
}
NAME = "ip-10-0-{}-{}.eu-central-1.compute.internal"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{}"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
users: [{{name: u, user: {{}}}}]
"""


def stamp(age: timedelta) -> str:
    return (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")


class FakeFleet:
    """Objects by the path of their collection. A watch is open and says nothing."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Object]] = {path: [] for path in (NODES, PODS, CLAIMS, POOLS, CLASSES, EVENTS)}
        self.missing: set[str] = set()
        self.forbidden: set[str] = set()
        self.clock_ahead = timedelta()
        """By how much the clock of this API server is ahead of the test's."""
        self.ended = threading.Event()

    def add(self, path: str, body: Object) -> None:
        metadata = body["metadata"]
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        metadata.setdefault("resourceVersion", "7")
        metadata.setdefault("creationTimestamp", stamp(timedelta(hours=30)))
        self.objects[path].append(body)

    def pool(self, name: str, **spec: Any) -> None:
        self.add(POOLS, {"metadata": {"name": name}, "spec": spec})

    def node(
        self,
        number: int,
        pool: str,
        kind: str,
        *,
        zone: str = "a",
        capacity: str = "on-demand",
        stages: int = 3,
        age: timedelta = timedelta(hours=30),
        meta: Object | None = None,
        others: list[Object] | None = None,
        is_ready: bool = True,
    ) -> str:
        """Add a NodeClaim, and its Node once it has registered, and return the name of the Node."""
        name, claim, created = NAME.format(number % 3, number), f"{pool}-{number:05x}", stamp(age)
        provider = {"providerID": f"aws:///eu-central-1{zone}/i-0{number:016x}"}
        all_labels = {
            labels.NODEPOOL: pool,
            labels.INSTANCE_TYPE: kind,
            labels.ZONE: f"eu-central-1{zone}",
            labels.REGION: "eu-central-1",
            labels.CAPACITY_TYPE: capacity,
        }
        conditions = [{"type": type_, "status": "True", "lastTransitionTime": created} for type_ in STAGES[:stages]]
        metadata = {"name": claim, "labels": all_labels, "creationTimestamp": created, **(meta or {})}
        status = {"conditions": [*conditions, *(others or [])], **(provider if stages else {})}
        self.add(CLAIMS, {"metadata": metadata, "spec": {}, "status": status})
        if stages > 1:
            cpu, memory = QUANTITIES[kind]
            taints = (
                [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}] if "deletionTimestamp" in metadata else []
            )
            ready = {"type": "Ready", "status": "True" if is_ready else "False"}
            self.add(
                NODES,
                {
                    "metadata": {"name": name, "labels": all_labels, "creationTimestamp": created},
                    "spec": {**provider, "taints": taints},
                    "status": {
                        "conditions": [ready],
                        "allocatable": {"cpu": cpu, "memory": memory, "pods": "58"},
                    },
                },
            )
        return name

    def pods(self, workload: str, count: int, node: str, cpu: str, memory: str = "1Gi", **annotations: str) -> None:
        """Add running pods."""
        for number in range(count):
            container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            self.add(
                PODS,
                {
                    "metadata": {
                        "name": f"{workload}-{len(self.objects[PODS])}-{number}",
                        "namespace": "shop",
                        "annotations": annotations,
                    },
                    "spec": {"nodeName": node, "containers": [container]},
                    "status": {"phase": "Running"},
                },
            )

    def waiting_pod(self, name: str, why: str) -> None:
        """Add a pod that kube-scheduler cannot place."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        self.add(
            PODS,
            {
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": "Pending", "conditions": [condition]},
            },
        )


def varied_fleet() -> FakeFleet:
    """Ten nodes that differ in everything that the view shows."""
    fleet = FakeFleet()
    fleet.pool("web", disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"})
    fleet.pool("batch", disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"})
    may_move = {"type": "Consolidatable", "status": "True"}
    fleet.pods("api", 12, fleet.node(1, "web", "m5.4xlarge", others=[may_move]), "1200m", "3Gi")
    fleet.pods("api", 3, fleet.node(2, "web", "m5.4xlarge", zone="b", age=timedelta(days=12)), "1", "2Gi")
    fleet.pods(
        "cache", 4, fleet.node(3, "web", "r6i.xlarge", zone="b"), "500m", "6Gi", **{labels.DO_NOT_DISRUPT: "true"}
    )
    command = {labels.DISRUPTED_BY: "underutilized-7f3a"}
    reason = {"type": "DisruptionReason", "status": "True", "reason": "Underutilized"}
    fleet.pods(
        "api", 1, fleet.node(4, "web", "c6g.2xlarge", zone="c", meta={"annotations": command}, others=[reason]), "2"
    )
    replaces = {"annotations": {labels.REPLACEMENT_FOR: "underutilized-7f3a"}}
    fleet.node(5, "web", "m5.large", zone="c", stages=2, age=timedelta(minutes=20), meta=replaces)
    leaving = {
        "deletionTimestamp": stamp(timedelta(minutes=2)),
        "finalizers": [labels.TERMINATION_FINALIZER],
        "annotations": {
            labels.DELETED_BECAUSE: '[{"reason": "Empty", "detail": "for 5m", "actor": "command empty-1c"}]'
        },
    }
    fleet.pods("job", 1, fleet.node(6, "batch", "c6g.2xlarge", capacity="spot", meta=leaving), "1")
    fleet.pods(
        "job", 6, fleet.node(7, "batch", "c6g.2xlarge", capacity="spot", zone="b", age=timedelta(hours=7)), "1300m"
    )
    fleet.pods("job", 2, fleet.node(8, "batch", "r6i.xlarge", capacity="spot", is_ready=False), "1500m", "4Gi")
    fleet.node(9, "batch", "c6g.2xlarge", capacity="spot", stages=0, age=timedelta(minutes=10))
    fleet.pods(
        "db", 2, fleet.node(10, "web", "r6i.xlarge", capacity="reserved", age=timedelta(days=40)), "1900m", "13Gi"
    )
    for number in range(3):
        fleet.waiting_pod(f"train-{number}", "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.")
    fleet.waiting_pod("report-0", "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector.")
    return fleet


@contextmanager
def serving_fleet(fleet: FakeFleet, folder: Path) -> Iterator[Path]:
    """Serve the fleet, and yield a kubeconfig for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            if parts.path in fleet.forbidden:
                self._answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "you may not"})
            elif parts.path in fleet.missing or parts.path not in fleet.objects:
                self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not served"})
            elif "sendInitialEvents" in query:
                self._answer(422, {"kind": "Status", "code": 422, "reason": "Invalid", "message": "no initial events"})
            elif "watch" in query:
                self.send_response(200)
                self.end_headers()
                self.wfile.flush()
                fleet.ended.wait()
            else:
                self._answer(200, {"metadata": {"resourceVersion": "7"}, "items": fleet.objects[parts.path]})

        def _answer(self, status: int, body: Object) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def date_time_string(self, timestamp: float | None = None) -> str:
            assert timestamp is None
            return format_datetime(datetime.now(UTC) + fleet.clock_ahead, usegmt=True)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with running(Handler) as address:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(address))
        try:
            yield kubeconfig
        finally:
            fleet.ended.set()
