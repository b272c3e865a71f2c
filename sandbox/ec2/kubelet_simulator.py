"""Turns running instances into nodes, and simulates their kubelets and the cloud controller.

After its boot delay an instance reads its user data. If its first boot accepts it, the instance registers as a NotReady
node and becomes Ready a moment later. From then on KWOK sends
its heartbeats and runs its pods. Its Node is deleted when the instance is gone, except for an instance that an operator
lost on purpose, whose Node stays behind, not ready. Pods that are bound to a managed node are admitted, or failed as a
kubelet would fail them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

from activities import loggers
from sandbox import kwok
from sandbox.ec2 import admission, catalogue, nodes
from sandbox.ec2.boot import BootPlan
from sandbox.ec2.instances import Machine
from sandbox.ec2.kube import KubeClient, KubeError
from sandbox.ec2.mirror import Mirror
from sandbox.ec2.userdata.reader import UserDataReader, family_of
from sandbox.ec2.userdata.settings import BootFacts, KubeletSettings, UserDataRefusedError
from sandbox.ec2.world import World
from tenon.kube import object_json

log = loggers.SANDBOX_KUBELET
TICK = 0.25
"""Seconds between two checks of the instances. Changes in the cluster are handled when they arrive."""
PAUSE = 0.05
"""Seconds in which changes gather. A check goes through all nodes and pods, and a burst would cause one for each
change.
"""
READY_AFTER = 1.0
"""Seconds from registering to Ready."""
WORKERS = 8
KUBELET_VERSION = "v1.36.0-eks"
KERNELS = {
    "AL2023": "6.12.40-63.114.amzn2023",
    "AL2": "5.10.240-238.959.amzn2",
    "Bottlerocket": "6.12.37",
    "Windows": "10.0.20348.4052",
}
"""The kernel of a family's images."""
DIED_BOOTING = ("Client.InternalError", "Client error on launch")
"""EC2's reason for an instance that could not boot, for example because the key of a volume was missing."""


class KubeletSimulator:
    """The control loop. `start` runs it in its own thread."""

    def __init__(
        self,
        client: KubeClient,
        world: World,
        boot: BootPlan,
        reader: UserDataReader,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._world = world
        self._boot = boot
        self._reader = reader
        self._clock = clock
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._nodes = Mirror(client, "/api/v1/nodes", {}, self._wake.set)
        self._pods = Mirror(client, "/api/v1/pods", {"fieldSelector": "spec.nodeName!="}, self._wake.set)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="joiner")
        self._busy: set[str] = set()
        self._decided: dict[str, bool] = {}
        self._joined: dict[str, float] = {}
        self._broken: set[str] = set()
        self._rejections: list[dict[str, Any]] = []
        self._misplaced: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._version = KUBELET_VERSION
        self._thread = threading.Thread(target=self._run, name="joiner", daemon=True)

    def start(self) -> None:
        """Start watching the cluster and joining instances."""
        self._nodes.start()
        self._pods.start()
        self._thread.start()

    def stop(self) -> None:
        """End the loop, and wait for running calls."""
        self._stop.set()
        self._wake.set()
        for mirror in (self._nodes, self._pods):
            mirror.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def rejections(self) -> dict[str, list[dict[str, Any]]]:
        """Pods that were failed, and pods that were bound despite a NoSchedule taint."""
        with self._lock:
            return {"rejections": list(self._rejections), "misplaced": list(self._misplaced)}

    def clear_rejections(self) -> None:
        """Clear both records."""
        with self._lock:
            self._rejections.clear()
            self._misplaced.clear()

    # --- the loop ---

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._wake.wait(TICK):
                self._stop.wait(PAUSE)
            self._wake.clear()
            if not (self._nodes.synced.is_set() and self._pods.synced.is_set()):
                continue
            try:
                self._world.book.advance()
                known = self._nodes.objects()
                self._join(known)
                self._leave(known)
                self._admit()
            except Exception:
                # One bad object must not stop the other nodes. The next check retries.
                log.exception("The simulator failed to check the cluster")
                self._stop.wait(1)

    def _do(self, key: str, work: Callable[[], Any]) -> None:
        """Run a call on the thread pool, one at a time for each key. Errors are logged, and the next check retries."""
        with self._lock:
            if key in self._busy:
                return
            self._busy.add(key)

        def guarded() -> None:
            try:
                work()
            except KubeError as error:
                if error.status not in (404, 409):
                    log.warning(
                        "The API server refused a call of the simulator", extra={"call": key, "error": str(error)}
                    )
            except Exception:
                log.exception("A call of the simulator failed", extra={"call": key})
            finally:
                with self._lock:
                    self._busy.discard(key)

        self._pool.submit(guarded)

    # --- instances to nodes ---

    def _join(self, known: list[dict[str, Any]]) -> None:
        by_instance = {nodes.instance_of(node): node for node in known}
        now = self._clock()
        for machine in self._world.book.all():
            if machine.state != "running" or not machine.joins:
                continue
            node = by_instance.get(machine.id)
            if node is None:
                if machine.id in self._joined:
                    continue
                if not self._boot.due(machine.pool[0], machine.running_since, now, machine.sequence):
                    continue
                if self._boot.rule(machine.pool[0], machine.sequence).dies:
                    self._world.book.lose(machine.id, *DIED_BOOTING)
                else:
                    self._do(f"register {machine.id}", partial(self._register, machine))
            elif self._should_be_ready(machine, node, now):
                self._do(f"ready {machine.id}", partial(self._make_ready, node))

    def _register(self, machine: Machine) -> None:
        if machine.id in self._broken:
            return
        facts = instance_facts(machine)
        kind = catalogue.describe_type(facts.instance_type)
        if kind is None:
            return
        try:
            settings = self._settings_of(machine, facts, kind)
        except UserDataRefusedError as error:
            self._broken.add(machine.id)
            machine.console.append(f"The first boot refused the user data, and no kubelet started. {error}")
            log.error("An instance never joins", extra={"instance": machine.id, "error": str(error)})
            return
        node = nodes.node(kind, facts, settings, datetime.now(UTC), self._version)
        self._client.call("POST", "/api/v1/nodes", node)
        self._joined[machine.id] = self._clock()
        machine.console.append(f"The kubelet registered {facts.private_dns_name}: {settings}")
        log.info("An instance joined as a Node", extra={"instance": machine.id, "node": facts.private_dns_name})

    def _settings_of(self, machine: Machine, facts: nodes.InstanceFacts, kind: dict[str, Any]) -> KubeletSettings:
        """The kubelet settings in the instance's user data. An operator's planted instance has none, and joins if that
        was requested, as if somebody had started its kubelet by hand.

        Raises:
            UserDataRefusedError: the first boot refuses it.
        """
        text = user_data(machine)
        return KubeletSettings() if text is None else self._reader.read(text, boot_facts(machine, facts, kind))

    def _should_be_ready(self, machine: Machine, node: dict[str, Any], now: float) -> bool:
        if object_json.annotations(node).get(kwok.KUBELET_ANNOTATION) == "ready":
            return False
        if self._boot.rule(machine.pool[0], machine.sequence).not_ready:
            return False
        return now >= self._joined.get(machine.id, 0.0) + READY_AFTER

    def _make_ready(self, node: dict[str, Any]) -> None:
        """Set Ready as the kubelet does, and remove the boot taints as the cloud controller does. Then KWOK
        takes over.
        """
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        fresh = self._client.call("GET", path)
        if fresh["metadata"]["uid"] != node["metadata"]["uid"]:
            return
        status = {"status": {"conditions": nodes.conditions(True, datetime.now(UTC))}}
        fresh = self._client.call("PATCH", f"{path}/status", status, patch="strategic")
        taints = [one for one in fresh["spec"].get("taints") or [] if one["key"] not in nodes.BOOT_TAINTS]
        change = {
            "metadata": {
                "resourceVersion": fresh["metadata"]["resourceVersion"],  # keep a taint set since
                "annotations": {kwok.NODE_ANNOTATION: "fake", kwok.KUBELET_ANNOTATION: "ready"},
            },
            "spec": {"taints": taints},
        }
        self._client.call("PATCH", path, change, patch="merge")
        log.info("A Node is ready", extra={"node": node["metadata"]["name"]})

    def _leave(self, known: list[dict[str, Any]]) -> None:
        """Stop the heartbeats of instances that shut down, and delete the Nodes of instances that are gone."""
        for node in known:
            instance_id = nodes.instance_of(node)
            if not instance_id:
                continue
            machine = self._world.book.get(instance_id)
            name, uid = node["metadata"]["name"], node["metadata"]["uid"]
            if instance_id in self._world.book.abandoned:
                if lost_visibly(node):
                    continue
                self._do(f"lose {uid}", partial(self._lose, node))
            elif machine is None or machine.state == "terminated":
                if not object_json.is_deleting(node):
                    body = {"preconditions": {"uid": uid}}
                    self._do(f"delete {uid}", partial(self._client.call, "DELETE", f"/api/v1/nodes/{name}", body))
            elif machine.state == "shutting-down" and object_json.annotations(node).get(kwok.KUBELET_ANNOTATION):
                self._do(f"silence {uid}", partial(self._silence, node))

    def _silence(self, node: dict[str, Any]) -> None:
        change = {
            "metadata": {
                "uid": node["metadata"]["uid"],
                "annotations": {kwok.NODE_ANNOTATION: None, kwok.KUBELET_ANNOTATION: None},
            }
        }
        self._client.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", change, patch="merge")

    def _lose(self, node: dict[str, Any]) -> None:
        """Stop the node's heartbeats and set it to Unknown immediately. A node controller would do so only after its
        grace period.
        """
        self._silence(node)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        self._client.call("PATCH", path, {"status": {"conditions": nodes.lost(datetime.now(UTC))}}, patch="strategic")

    # --- pods ---

    def _admit(self) -> None:
        pods = self._pods.objects()  # before the nodes: a pod must not be judged by a Node from before it was bound
        managed = {
            node["metadata"]["name"]: node
            for node in self._nodes.objects()
            if object_json.annotations(node).get(kwok.NODE_ANNOTATION) == "fake"
        }
        bound = [pod for pod in pods if pod["spec"]["nodeName"] in managed]
        with self._lock:
            alive = {pod["metadata"]["uid"] for pod in bound}
            for gone in self._decided.keys() - alive:
                del self._decided[gone]
            waiting = [pod for pod in bound if self._undecided(pod)]
        if not waiting:
            return
        running: dict[str, list[dict[str, Any]]] = {}
        for pod in bound:
            if self._runs(pod):
                running.setdefault(pod["spec"]["nodeName"], []).append(pod)
        for pod in sorted(waiting, key=lambda one: str(one["metadata"]["creationTimestamp"])):
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
                self._do(f"admit {pod['metadata']['uid']}", partial(self._answer, pod, None))
            else:
                self._do(f"reject {pod['metadata']['uid']}", partial(self._answer, pod, refused))

    def _latest(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """The Node as it is now. None if it is gone.

        A kubelet hears of changes of its Node and of its pods at the same time. Here two watches serve all nodes, and
        on a busy machine the pods' events may arrive long before those of the taints that were removed before them.
        """
        try:
            found = self._client.call("GET", f"/api/v1/nodes/{node['metadata']['name']}")
        except KubeError as error:
            if error.status != 404:
                raise
            return None
        return found if found["metadata"]["uid"] == node["metadata"]["uid"] else None

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


def lost_visibly(node: dict[str, Any]) -> bool:
    """Whether a node has no kubelet and is no longer Ready."""
    if object_json.annotations(node).get(kwok.NODE_ANNOTATION):
        return False
    conditions = (node.get("status") or {}).get("conditions") or []
    return not any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def admitted(pod: dict[str, Any]) -> bool:
    """Whether the pod has been admitted."""
    return object_json.annotations(pod).get(kwok.ADMITTED_ANNOTATION) == "true"


def finished(pod: dict[str, Any]) -> bool:
    """Whether the pod has terminated."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _record(pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = pod["metadata"]
    named = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"], "node": pod["spec"]["nodeName"]}
    return {**named, "time": time.time(), **more}


def user_data(machine: Machine) -> str | None:
    """The instance's user data. None if it has none.

    Raises:
        UserDataRefusedError: it is not text.
    """
    data = machine.instance.user_data
    try:
        return None if data is None else str(data.decode())
    except UnicodeDecodeError as error:
        raise UserDataRefusedError(f"the user data is not text: {error}") from error


def image_name(machine: Machine) -> str:
    """The name of the instance's image."""
    image = machine.instance.ec2_backend.amis.get(machine.instance.image_id)
    return str(image.name) if image is not None else ""


def boot_facts(machine: Machine, facts: nodes.InstanceFacts, kind: dict[str, Any]) -> BootFacts:
    """What the instance knows when it reads its user data."""
    return BootFacts(
        image=image_name(machine),
        instance_id=machine.id,
        instance_type=facts.instance_type,
        zone=facts.zone,
        region=facts.region,
        private_ip=facts.private_ip,
        cpus=int(kind["VCpuInfo"]["DefaultVCpus"]),
        eni_pods=nodes.eni_pods(kind),
        kubelet_version=KUBELET_VERSION,
    )


def instance_facts(machine: Machine) -> nodes.InstanceFacts:
    """The facts that the node is built from. Pods use the second volume of a Bottlerocket image, or else the root
    volume.
    """
    one = machine.instance
    sizes = {name: one.ec2_backend.volumes[device.volume_id].size for name, device in one.get_block_device_mapping}
    disk = sizes.get("/dev/xvdb") or sizes.get(one.root_device_name) or next(iter(sizes.values()), 20)
    return nodes.InstanceFacts(
        instance_id=machine.id,
        instance_type=machine.pool[0],
        zone=machine.pool[1],
        region=one.region_name,
        architecture=one.architecture,
        private_ip=one.private_ip,
        private_dns_name=one.private_dns_name,
        disk_gib=int(disk),
        kernel=KERNELS[family_of(image_name(machine))],
    )
