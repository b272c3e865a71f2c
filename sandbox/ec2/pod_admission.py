"""The kubelets' admission of pods that were bound to simulated nodes. `admission` has its rules."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from activities import loggers
from sandbox import kwok
from sandbox.ec2 import admission
from sandbox.ec2.keyed_calls import KeyedCalls
from sandbox.ec2.kube import KubeClient, KubeError
from sandbox.ec2.mirror import Mirror
from tenon.kube import object_json

log = loggers.SANDBOX_KUBELET


class PodAdmission:
    """Admits each bound pod to its node, or fails it."""

    def __init__(self, client: KubeClient, nodes: Mirror, pods: Mirror, calls: KeyedCalls) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._calls = calls
        self._decided: dict[str, bool] = {}
        """By UID of a pod: whether it was admitted."""
        self._rejections: list[dict[str, Any]] = []
        self._misplaced: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def rejections(self) -> dict[str, list[dict[str, Any]]]:
        """Pods that were failed, and pods that were bound despite a NoSchedule taint."""
        with self._lock:
            return {"rejections": list(self._rejections), "misplaced": list(self._misplaced)}

    def clear_rejections(self) -> None:
        """Clear both records."""
        with self._lock:
            self._rejections.clear()
            self._misplaced.clear()

    def admit(self) -> None:
        """Decide on the pods that were bound since the last time."""
        pods = self._pods.objects()  # before the nodes: a pod must not be judged by a Node from before it was bound
        managed = {
            node["metadata"]["name"]: node
            for node in self._nodes.objects()
            if object_json.annotations(node).get(kwok.NODE_ANNOTATION) == "fake"
        }
        bound = [pod for pod in pods if pod["spec"]["nodeName"] in managed]
        with self._lock:
            alive = {pod["metadata"]["uid"] for pod in bound}
            for removal in self._decided.keys() - alive:
                del self._decided[removal]
            waiting = [pod for pod in bound if self._undecided(pod)]
        if not waiting:
            return
        running: dict[str, list[dict[str, Any]]] = {}
        for pod in bound:
            if self._runs(pod):
                running.setdefault(pod["spec"]["nodeName"], []).append(pod)
        for pod in sorted(waiting, key=lambda item: str(item["metadata"]["creationTimestamp"])):
            name = pod["spec"]["nodeName"]
            refused = admission.admit(pod, managed[name], running.get(name, []))
            if refused is not None or admission.misplaced(pod, managed[name]):
                latest = self._latest(managed[name])
                if latest is None:
                    continue
                managed[name] = latest
                refused = admission.admit(pod, latest, running.get(name, []))
            with self._lock:
                self._decided[pod["metadata"]["uid"]] = refused is None
            if refused is None:
                running.setdefault(name, []).append(pod)
                self._note_misplaced(pod, managed[name])
                self._calls.do(f"admit {pod['metadata']['uid']}", partial(self._answer, pod, None))
            else:
                self._calls.do(f"reject {pod['metadata']['uid']}", partial(self._answer, pod, refused))

    def _latest(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """The Node as it is now. None if it is gone.

        A kubelet hears of changes of its Node and of its pods at the same time. Here two watches serve all nodes, and
        on a busy machine the pods' events may arrive long before those of the taints that were removed before them.
        """
        try:
            call = self._client.call("GET", f"/api/v1/nodes/{node['metadata']['name']}")
        except KubeError as error:
            if error.status != 404:
                raise
            return None
        return call if call["metadata"]["uid"] == node["metadata"]["uid"] else None

    def _undecided(self, pod: dict[str, Any]) -> bool:
        if object_json.is_deleting(pod) or finished(pod):
            return False
        return pod["metadata"]["uid"] not in self._decided and not admitted(pod)

    def _runs(self, pod: dict[str, Any]) -> bool:
        """Whether the pod uses resources: it is admitted (perhaps only a moment ago) and has not terminated."""
        return not finished(pod) and (admitted(pod) or self._decided.get(pod["metadata"]["uid"], False))

    def _answer(self, pod: dict[str, Any], refused: admission.Rejection | None) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            if refused is None:
                change = {"metadata": {"uid": meta["uid"], "annotations": {kwok.ADMITTED_ANNOTATION: "true"}}}
                self._client.call("PATCH", path, change, patch="merge")
                return
            status = {"phase": "Failed", "reason": refused.reason, "message": f"Pod was rejected: {refused.message}"}
            self._client.call(
                "PATCH", f"{path}/status", {"metadata": {"uid": meta["uid"]}, "status": status}, patch="merge"
            )
            with self._lock:
                self._rejections.append(_record(pod, reason=refused.reason, message=refused.message))
            log.warning(
                "The kubelet rejected a pod",
                extra={"pod": f"{meta['namespace']}/{meta['name']}", "error": refused.message},
            )
        except Exception:
            with self._lock:
                self._decided.pop(meta["uid"], None)
            raise

    def _note_misplaced(self, pod: dict[str, Any], node: dict[str, Any]) -> None:
        taints = admission.misplaced(pod, node)
        if taints:
            with self._lock:
                self._misplaced.append(_record(pod, taints=taints))


def admitted(pod: dict[str, Any]) -> bool:
    """Whether the pod has been admitted."""
    return object_json.annotations(pod).get(kwok.ADMITTED_ANNOTATION) == "true"


def finished(pod: dict[str, Any]) -> bool:
    """Whether the pod has terminated."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _record(pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = pod["metadata"]
    names = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"], "node": pod["spec"]["nodeName"]}
    return {**names, "time": time.time(), **more}
