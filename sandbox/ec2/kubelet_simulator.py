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
from datetime import UTC, datetime
from functools import partial
from typing import Any

from activities import loggers
from sandbox import kwok
from sandbox.ec2 import catalogue, nodes
from sandbox.ec2.boot import BootPlan
from sandbox.ec2.instance_facts import KUBELET_VERSION, boot_facts, instance_facts, user_data
from sandbox.ec2.instances import Machine
from sandbox.ec2.keyed_calls import KeyedCalls
from sandbox.ec2.kube import KubeClient, KubeError
from sandbox.ec2.mirror import Mirror
from sandbox.ec2.pod_admission import PodAdmission
from sandbox.ec2.scaling_groups import is_in_group
from sandbox.ec2.userdata.reader import UserDataReader
from sandbox.ec2.userdata.settings import KubeletSettings, UserDataRefusedError
from sandbox.ec2.world import World
from tenon.kube import object_json
from tenon.kube.conditions import is_true

log = loggers.SANDBOX_KUBELET
TICK = 0.25
"""Seconds between two checks of the instances. Changes in the cluster are handled when they arrive."""
PAUSE = 0.05
"""Seconds in which changes gather. A check goes through all nodes and pods, and a burst would cause one for each
change.
"""
READY_AFTER = 1.0
"""Seconds from registering to Ready."""
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
        self._calls = KeyedCalls()
        self._admission = PodAdmission(client, self._nodes, self._pods, self._calls)
        self._joined: dict[str, float] = {}
        self._broken: set[str] = set()
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
        self._calls.stop()

    def rejections(self) -> dict[str, list[dict[str, Any]]]:
        """Pods that were failed, and pods that were bound despite a NoSchedule taint."""
        return self._admission.rejections()

    def clear_rejections(self) -> None:
        """Clear both records."""
        self._admission.clear_rejections()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._wake.wait(TICK):
                self._stop.wait(PAUSE)
            self._wake.clear()
            if not (self._nodes.synced.is_set() and self._pods.synced.is_set()):
                continue
            try:
                self._world.book.advance()
                objects = self._nodes.objects()
                self._join(objects)
                self._leave(objects)
                self._admission.admit()
            except Exception:
                # One bad object must not stop the other nodes. The next check retries.
                log.exception("The simulator failed to check the cluster")
                self._stop.wait(1)

    def _join(self, entries: list[dict[str, Any]]) -> None:
        by_instance = {nodes.instance_of(node): node for node in entries}
        now = self._clock()
        for machine in self._world.book.all():
            if machine.state != "running" or not machine.joins:
                continue
            node = by_instance.get(machine.id)
            if not machine.booted:
                machine.booted = True
                machine.console += self._boot.rule(machine.pool[0], machine.sequence).console.splitlines()
            if node is not None and machine.rebooting_since is not None:
                self._reboot(machine, node, now)
            elif node is None:
                if machine.id in self._joined:
                    continue
                if not self._boot.due(machine.pool[0], machine.running_since, now, machine.sequence):
                    continue
                if self._boot.rule(machine.pool[0], machine.sequence).dies:
                    self._world.book.lose(machine.id, *DIED_BOOTING)
                else:
                    self._calls.do(f"register {machine.id}", partial(self._register, machine))
            elif self._should_be_ready(machine, node, now):
                self._calls.do(f"ready {machine.id}", partial(self._make_ready, node))

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
        node = nodes.node(kind, facts, settings, datetime.now(UTC), KUBELET_VERSION)
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
        if machine.silent or self._boot.rule(machine.pool[0], machine.sequence).not_ready:
            return False
        return now >= self._joined.get(machine.id, 0.0) + READY_AFTER

    def _make_ready(self, node: dict[str, Any]) -> None:
        """Set Ready as the kubelet does, and remove the boot taints as the cloud controller does. Then KWOK
        takes over.
        """
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        status = {
            "metadata": {"uid": node["metadata"]["uid"]},
            "status": {"conditions": nodes.conditions(True, datetime.now(UTC))},
        }
        fresh = self._client.call("PATCH", f"{path}/status", status, patch="strategic")
        for last in (False, True):
            taints = [taint for taint in fresh["spec"].get("taints") or [] if taint["key"] not in nodes.BOOT_TAINTS]
            change = {
                "metadata": {
                    "resourceVersion": fresh["metadata"]["resourceVersion"],  # keep a taint set since
                    "annotations": {kwok.NODE_ANNOTATION: "fake", kwok.KUBELET_ANNOTATION: "ready"},
                },
                "spec": {"taints": taints},
            }
            try:
                self._client.call("PATCH", path, change, patch="merge")
                break
            except KubeError as error:
                if error.status != 409 or last:
                    raise
            fresh = self._client.call("GET", path)  # the node's controllers write it at the same time
        log.info("A Node is ready", extra={"node": node["metadata"]["name"]})

    def _reboot(self, machine: Machine, node: dict[str, Any], now: float) -> None:
        """Stop the kubelet, and start it with another boot ID when the machine has booted. Its containers restart."""
        if not lost_visibly(node):
            self._calls.do(f"reboot {machine.id}", partial(self._lose, node))
        elif self._boot.due(
            machine.pool[0], machine.rebooting_since, now, machine.sequence, again=machine.started_again
        ):
            self._calls.do(f"boot {machine.id}", partial(self._boot_again, machine, node, machine.rebooting_since))

    def _boot_again(self, machine: Machine, node: dict[str, Any], since: float | None) -> None:
        name = node["metadata"]["name"]
        status = {"conditions": nodes.conditions(False, datetime.now(UTC)), "nodeInfo": {"bootID": machine.boot_id}}
        self._client.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, patch="strategic")
        for pod in self._pods.objects():
            if pod["spec"].get("nodeName") == name and (pod.get("status") or {}).get("phase") == "Running":
                self._restart(pod)
        self._joined[machine.id] = self._clock()
        if machine.rebooting_since == since:  # otherwise it was asked to reboot once more
            machine.rebooting_since = None
            machine.started_again = False
        log.info("A machine has booted again", extra={"node": name, "boot": machine.boot_id})

    def _restart(self, pod: dict[str, Any]) -> None:
        """Count a restart of each container, as the kubelet does for the pods that it finds after a boot."""
        running = {"running": {"startedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}
        containers = [
            {**status, "restartCount": int(status.get("restartCount") or 0) + 1, "state": running}
            for status in (pod["status"].get("containerStatuses") or ())
        ]
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        change = {"metadata": {"uid": metadata["uid"]}, "status": {"containerStatuses": containers}}
        self._client.call("PATCH", path, change, patch="merge")

    def _leave(self, entries: list[dict[str, Any]]) -> None:
        """Stop the heartbeats of silent and ending instances, and delete the Nodes of those that are gone."""
        for node in entries:
            instance_id = nodes.instance_of(node)
            if not instance_id:
                continue
            machine = self._world.book.get(instance_id)
            name, uid = node["metadata"]["name"], node["metadata"]["uid"]
            is_silent = machine is not None and machine.silent and machine.state == "running"
            is_off = machine is not None and machine.state in ("stopping", "stopped")
            if is_silent or is_off or instance_id in self._world.book.abandoned:
                if lost_visibly(node):
                    continue
                self._calls.do(f"lose {uid}", partial(self._lose, node))
            elif machine is None and is_in_group(instance_id):
                continue
            elif machine is None or machine.state == "terminated":
                if not object_json.is_deleting(node):
                    body = {"preconditions": {"uid": uid}}
                    self._calls.do(f"delete {uid}", partial(self._client.call, "DELETE", f"/api/v1/nodes/{name}", body))
            elif machine.state == "shutting-down" and object_json.annotations(node).get(kwok.KUBELET_ANNOTATION):
                self._calls.do(f"silence {uid}", partial(self._silence, node))

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


def lost_visibly(node: dict[str, Any]) -> bool:
    """Whether a node has no kubelet and is no longer Ready."""
    return not object_json.annotations(node).get(kwok.NODE_ANNOTATION) and not is_true(node, "Ready")
