"""The simulated kubelets judge a pod by the Node as it is, however late the sandbox hears of changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

from sandbox import kwok
from sandbox.ec2.boot import BootPlan
from sandbox.ec2.kube import KubeClient, KubeError
from sandbox.ec2.kubelet_simulator import KubeletSimulator
from sandbox.ec2.prices import read_prices
from sandbox.ec2.userdata.reader import UserDataReader
from sandbox.ec2.world import World

UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
SOON = 30.0


def node(*taints: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "n",
            "uid": "node",
            "annotations": {kwok.NODE_ANNOTATION: "fake", kwok.KUBELET_ANNOTATION: "ready"},
        },
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
    }


POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "pod", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
}


class LateWatch(KubeClient):
    """An API server whose watch has not told yet that the Node changed."""

    def __init__(self, listed: dict[str, Any], now: dict[str, Any] | None) -> None:
        self._lists = {"/api/v1/nodes": [listed], "/api/v1/pods": [POD]}
        self._now = now
        self._ended = Event()
        self.requests = Event()
        self.answer_event = Event()
        self.answers: list[Any] = []

    def call(
        self, method: str, path: str, body: Any = None, *, patch: str = "", query: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        if path in self._lists:
            return {"items": self._lists[path], "metadata": {"resourceVersion": "1"}}
        if (method, path) == ("GET", "/api/v1/nodes/n"):
            if self.requests.is_set():
                self.answer_event.set()  # it asked again, so nothing was decided the first time
            self.requests.set()
            if self._now is None:
                raise KubeError(404, "not found")
            return self._now
        self.answers.append(body)
        self.answer_event.set()
        return {}

    def watch(self, path: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._ended.wait()
        return iter(())

    def close(self) -> None:
        self._ended.set()


def judged(client: LateWatch) -> dict[str, list[dict[str, Any]]]:
    """What the kubelets recorded after they judged the pod, or after they asked for its Node a second time."""
    simulator = KubeletSimulator(client, World(read_prices()), BootPlan(0.0), UserDataReader(Path("/nodeadm")))
    simulator.start()
    try:
        assert client.answer_event.wait(SOON)
    finally:
        client.close()
        simulator.stop()
    return simulator.rejections()


def test_a_pod_is_not_refused_for_a_taint_that_the_node_had_before() -> None:
    """The pod was bound after the taint was removed, but its event came first."""
    client = LateWatch(node(UNREGISTERED), now=node())
    assert judged(client) == {"rejections": [], "misplaced": []}
    assert [answer["metadata"]["annotations"] for answer in client.answers] == [{kwok.ADMITTED_ANNOTATION: "true"}]


def test_a_pod_is_refused_for_a_taint_that_the_node_has_now() -> None:
    result = judged(LateWatch(node(UNREGISTERED), now=node(UNREGISTERED)))
    assert [rejection["reason"] for rejection in result["rejections"]] == ["TaintToleration"]


def test_only_a_taint_that_the_node_has_now_makes_a_pod_misplaced() -> None:
    soft = {**UNREGISTERED, "effect": "NoSchedule"}
    assert judged(LateWatch(node(soft), now=node()))["misplaced"] == []
    result = judged(LateWatch(node(soft), now=node(soft)))
    assert [item["taints"] for item in result["misplaced"]] == [["karpenter.sh/unregistered:NoSchedule"]]


def test_a_pod_on_a_node_that_is_gone_is_not_judged() -> None:
    client = LateWatch(node(UNREGISTERED), now=None)
    assert judged(client) == {"rejections": [], "misplaced": []}
    assert client.answers == []
